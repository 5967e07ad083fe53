// Follows a run that is at work; without it the page is loaded again every few seconds.
const live = document.getElementById("live");
if (live) {
  const store = encodeURIComponent(live.dataset.store);
  const events = new EventSource(`/ui/jobs/${encodeURIComponent(live.dataset.id)}/events?store=${store}`);
  const stage = document.getElementById("stage");
  const progress = document.getElementById("progress");
  const show = (event) => {
    const { stage: name, done, total } = JSON.parse(event.data);
    stage.textContent = name;
    if (total > 0) progress.value = Math.floor((Math.min(done ?? 0, total) * 100) / total);
    else progress.removeAttribute("value");
  };
  events.addEventListener("stage", show);
  events.addEventListener("progress", show);
  events.addEventListener("end", () => { events.close(); location.reload(); });
}
