// What a reviewer has typed about an item stays in this tab until the item is decided or they go back without saving.
const draftKey = (item) => `trace-draft:${document.getElementById("review").dataset.user}:${item.dataset.item}`;

function keepDraft(item) {
  const form = item.querySelector("#edit");
  const note = item.querySelector("#reject-note");
  if (!form) return;
  const draft = {
    editing: !form.hidden,
    query: form.elements.query.value,
    trace: form.elements.trace.value,
    answer: [...form.querySelectorAll("[name=answer]:checked")].map((box) => box.value),
    note: note.value,
  };
  sessionStorage.setItem(draftKey(item), JSON.stringify(draft));
}

const forgetDraft = (item) => item.dataset.item && sessionStorage.removeItem(draftKey(item));

// True when an edit is open again, so that its reader is told.
function restoreDraft(item) {
  const kept = item.dataset.item && sessionStorage.getItem(draftKey(item));
  if (!kept) return false;
  const draft = JSON.parse(kept);
  fillEdit(item, draft);
  item.querySelector("#reject-note").value = draft.note;
  return draft.editing;
}

function fillEdit(item, texts) {
  const form = item.querySelector("#edit");
  form.elements.query.value = texts.query;
  form.elements.trace.value = texts.trace;
  for (const box of form.querySelectorAll("[name=answer]")) box.checked = texts.answer.includes(box.value);
}
