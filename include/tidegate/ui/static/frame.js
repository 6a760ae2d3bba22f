// Links to Airflow's own pages. Airflow shows the pages in a frame that may not lead anywhere else, so such a link is
// followed by the page around it.
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

// A form is sent when its choices change; without scripts its button does it.
document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-at-once] select")) event.target.form.requestSubmit();
});
