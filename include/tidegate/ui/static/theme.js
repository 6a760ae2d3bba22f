// Light or dark as Airflow is: what the page around the frame shows, else what it has stored, else what the system says.
// Loaded before anything is drawn.
"use strict";
(() => {
  const around = () => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // of another origin: it says nothing
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
