// Runs before the first paint: the remembered choice, or the system's.
(() => {
  const root = document.documentElement;
  const saved = localStorage.getItem("trace-theme");
  if (saved) root.dataset.theme = saved;
  const isDark = saved ? saved === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.classList.toggle("dark-mode", isDark); // Swagger UI's name for it
})();
