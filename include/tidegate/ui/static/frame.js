// Links to Airflow's own pages. Airflow shows Tidegate's pages in a frame that may not navigate elsewhere, so the outer
// page follows such a link.
"use strict";
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window.parent === window || event.defaultPrevented) return;
  let host;
  try {
    host = window.parent.document;
  } catch {
    return;
  }
  event.preventDefault();
  const outside = host.createElement("a");
  outside.href = link.href;
  if (event.ctrlKey || event.metaKey || event.shiftKey) outside.target = "_blank";
  outside.click();
});

// Sends a form when its choices change; without scripts, its button does so.
document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-at-once] select")) event.target.form.requestSubmit();
});
