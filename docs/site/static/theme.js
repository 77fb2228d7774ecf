// SPDX-License-Identifier: BSD-3-Clause
// Debian ships furo's script as an ES module that browsers do not start as it is included (conf.py leaves it out), so that
// light and dark are chosen here. Where furo's own script runs, the mark "no-js" is gone and this does nothing.
addEventListener("load", () => {
  const page = document.documentElement;
  if (!page.classList.contains("no-js")) return;
  page.classList.remove("no-js");
  const wanted = () => localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const show = (theme) => { document.body.dataset.theme = theme; };
  show(wanted());
  for (const button of document.getElementsByClassName("theme-toggle"))
    button.addEventListener("click", () => {
      localStorage.setItem("theme", wanted() === "dark" ? "light" : "dark");
      show(wanted());
    });
});
