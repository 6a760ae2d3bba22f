// Sets the theme, light or dark: that of the page around the frame, else the stored one, else the system's.
// Loaded before anything is drawn.
"use strict";
(() => {
  const around = () => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // of another origin, so its theme is unknown
    }
  };
  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const show = () => {
    const said = [...(around()?.classList ?? []), stored()].find((name) => name === "dark" || name === "light");
    document.documentElement.dataset.theme = said ?? "";
  };
  show();
  window.addEventListener("storage", show);
  const host = around();
  if (host) {
    new MutationObserver(show).observe(host, { attributes: true, attributeFilter: ["class"] });
    document.documentElement.dataset.framed = "";
  }
})();
