// Runs before the first paint: the remembered choice, or the system's.
(() => {
  const saved = localStorage.getItem("trace-theme");
  if (saved) document.documentElement.dataset.theme = saved;
})();
