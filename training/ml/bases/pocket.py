"""The pocket model: a sentence encoder that has read English reads the request, a small decoder writes the answer.

One sequence holds both: the request up to the assistant marker, then what is written. The encoder (any BERT-like one,
384 wide by default) reads the request once, while the cache is empty; the decoder (Qwen3's layers) runs over the
encoder's states and what is written so far. What goes to the output head is a mixture: a gate decides at every
position between the decoder's state and the mean of the request's states, which is what the encoder compares texts by.
So the untrained model ranks the tools as the encoder does. Once a trace is written the answer no longer sees the mean:
it follows from the trace. The mean is kept in the cache as one more layer. The decoder also sees the rows of the tools
nearest to the mean: some with the request, the nearest with all it writes before an answer that has a trace. So a trace
is about the tools that an answer without one would rank high, whatever the style of the request.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    DynamicCache,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
)
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from training.core.recipe import Recipe
from training.ml.bases.adapters import ASSISTANT, CLOSE, END, OPEN, PAD, USER
from training.ml.bases.chat import FIRST_WORD, Chat
from training.ml.bases.named import rounded

SCALE = 20.0  # of the mean, whose length is 1: sentence-transformers' scale for cosines
NEAREST = 5  # tools whose rows the decoder sees with a request
KNOWN = 4096  # requests whose states are kept in training: about 300 MB
# the untrained gate: +4 where a list of tools begins, -4 elsewhere, before the logistic function
GATE_OPEN = 4.0


class PocketConfig(PretrainedConfig):
    """Both parts' configurations, and the ids by which the request is told from the answer."""

    model_type = "trace_pocket"
    sub_configs = {"encoder": AutoConfig, "writer": Qwen3Config}

    def __init__(
        self,
        encoder: Any = None,
        writer: Any = None,
        vocab_size: int = 0,
        assistant_id: int = 0,
        thinking_ids: Sequence[int] = (-1, -1),
        standing_for: dict[str, int] | None = None,
        tools: Sequence[int] = (0, 0),
        tie_word_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        if isinstance(encoder, dict):
            encoder = AutoConfig.for_model(**encoder)
        self.encoder = encoder if encoder is not None else AutoConfig.for_model("bert")
        # it reads a request once; asked for, recomputing activations would warn of it
        self.encoder.use_cache = False
        self.writer = Qwen3Config(**writer) if isinstance(writer, dict) else writer or Qwen3Config()
        self.vocab_size = vocab_size
        self.hidden_size = self.writer.hidden_size
        self.num_hidden_layers = self.writer.num_hidden_layers
        self.assistant_id = assistant_id
        self.thinking_ids = list(thinking_ids)  # what opens and what closes a trace
        # {control id: word of the encoder that stands for it}: the turn's two markers are what every text begins and
        # ends with there
        self.standing_for = {str(key): value for key, value in (standing_for or {}).items()}
        self.tools = list(tools)  # id of the first tool token, and how many there are
        self.tie_word_embeddings = tie_word_embeddings
        super().__init__(**kwargs)


class PocketPreTrained(PreTrainedModel):
    config_class = PocketConfig
    base_model_prefix = "model"
    _supports_sdpa = True
    _supports_attention_backend = True
    _no_split_modules: list[str] = []
    supports_gradient_checkpointing = True


class PocketModel(PocketPreTrained):
    """[batch, length] ids -> [batch, length, hidden] what the output head reads."""

    def __init__(self, config: PocketConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.encoder = AutoModel.from_config(config.encoder, add_pooling_layer=False)
        self.writer = Qwen3Model(config.writer)
        del self.writer.embed_tokens  # it is always given embedded inputs
        self.gate = nn.Linear(width, 1)
        self.scale = nn.Parameter(torch.tensor(SCALE).log())
        # states of requests, in training while the encoder stays as it is
        self._known: dict[tuple[int, ...], Tensor] = {}
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **_: Any,
    ) -> BaseModelOutputWithPast:
        cache = DynamicCache() if use_cache and past_key_values is None else past_key_values
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        real = real[:, -input_ids.shape[1] :].bool()
        if cache is not None and cache.get_seq_length():
            embedded = self.embed_tokens(input_ids)
            states, asked = torch.zeros_like(embedded), torch.zeros_like(real)
        else:
            states, asked = self.read(input_ids, real)
            embedded = states + self.embedded(input_ids)
        mean, reach = self.mean_and_reach(input_ids, states, asked, real, cache)
        embedded = self.with_nearest(embedded, mean[:, 0], asked, real & ~asked & reach)
        written = self.writer(
            # of one length, whatever their origin: else a token drowns in what the first layer adds to it
            inputs_embeds=functional.rms_norm(embedded, embedded.shape[-1:]),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        share = torch.sigmoid(self.gate(written).float()) * reach[..., None]
        mixed = share * self.scale.exp() * mean + (1 - share) * written.float()
        return BaseModelOutputWithPast(last_hidden_state=mixed.to(self.dtype), past_key_values=cache)

    def read(self, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's states of every request, in its place and zero elsewhere; and where the requests are.

        `real`: [batch, length], False on padding, which may be on either side. Without an assistant marker there is
        no request. The encoder learns where an answer follows at once; where a trace does it is read as it is, so
        that writing costs it neither time nor what it knows of tools that no trace names.
        """
        length = ids.shape[1]
        at = torch.arange(length, device=ids.device)
        marker = (ids == self.config.assistant_id) & real
        end = torch.where(marker.any(dim=1), marker.int().argmax(dim=1), -1)
        asked = real & (at <= end[:, None])
        sizes = asked.sum(dim=1)
        width = int(sizes.max())
        if not width:
            return self.embed_tokens.weight.new_zeros(*ids.shape, self.config.hidden_size), asked
        places = (asked.int().argmax(dim=1)[:, None] + at[:width]).clamp(max=length - 1)
        own = at[:width] < sizes[:, None]
        opened, closed = self.config.thinking_ids
        thinks = ((ids[:, :-1] == opened) & (ids[:, 1:] != closed)).any(dim=1)
        wanted = ids.gather(1, places)
        learns = torch.is_grad_enabled() and any(value.requires_grad for value in self.encoder.parameters())
        steady = self.training and not (learns or self.encoder.config.hidden_dropout_prob)
        if steady and self._is_read(wanted).logical_or(~own).all():
            states = self._remembered(wanted, sizes)
        else:
            if learns:
                self._known.clear()
            with torch.set_grad_enabled(learns and not bool(thinks.all())):
                states = self.encoder(
                    inputs_embeds=self.embedded(wanted), attention_mask=own.long()
                ).last_hidden_state
            states = torch.where(thinks[:, None, None], states.detach(), states) * own[..., None]
        spread = states.new_zeros(*ids.shape, states.shape[-1])
        return spread.scatter_add(1, places[..., None].expand_as(states), states), asked

    def _remembered(self, ids: Tensor, sizes: Tensor) -> Tensor:
        """States of requests while training leaves the encoder as it is. Each is read by itself, so what is remembered
        of it depends on nothing else in its batch, and a resumed run reads the same."""
        states = torch.zeros(*ids.shape, self.config.hidden_size, device=ids.device)
        for place, size in enumerate(sizes.tolist()):
            own = ids[place : place + 1, :size]
            key = tuple(own[0].tolist())
            if key not in self._known:
                if len(self._known) == KNOWN:
                    del self._known[next(iter(self._known))]
                with torch.no_grad():
                    found = self.encoder(inputs_embeds=self.embedded(own)).last_hidden_state
                self._known[key] = found[0].float()
            states[place, :size] = self._known[key]
        return states

    def _is_read(self, ids: Tensor) -> Tensor:
        """Which tokens the encoder has a word for: training moves no word, but the rows of all others."""
        standing = [int(control) for control in self.config.standing_for]
        return (ids >= FIRST_WORD) | torch.isin(ids, torch.tensor(standing, device=ids.device))

    def embedded(self, ids: Tensor) -> Tensor:
        """The encoder's row of its words and of what one of its words stands for, our row of every other token."""
        for control, word in self.config.standing_for.items():
            ids = torch.where(ids == int(control), FIRST_WORD + word, ids)
        words = ids >= FIRST_WORD
        theirs = self.encoder.get_input_embeddings()((ids - FIRST_WORD).clamp(min=0))
        return torch.where(words[..., None], theirs, self.embed_tokens(ids.masked_fill(words, 0)))

    def with_nearest(self, embedded: Tensor, mean: Tensor, asked: Tensor, written: Tensor) -> Tensor:
        """`embedded` with rows of the tools nearest to `mean`, [batch, hidden], added: to a request's first places one
        each, the nearest first; to everything written while the mean is in reach the nearest of all."""
        first, count = self.config.tools
        if not count:
            return embedded
        split = getattr(self.embed_tokens, "rows", None)
        rows = self.embed_tokens.weight[first : first + count] if split is None else split
        place = (asked.long().cumsum(dim=1) - 1).clamp(min=0)
        with torch.no_grad():
            found = (mean @ rows.float().T).topk(min(NEAREST, count)).indices
            here = (written | (asked & (place < found.shape[1]))) & mean.any(dim=1)[:, None]
            which = found.gather(1, torch.where(written, 0, place).clamp(max=found.shape[1] - 1))
            nearest = functional.normalize(rows[which], dim=-1)
        return torch.where(here[..., None], functional.normalize(embedded, dim=-1) + nearest, embedded)

    def mean_and_reach(
        self, ids: Tensor, states: Tensor, asked: Tensor, real: Tensor, cache: Any
    ) -> tuple[Tensor, Tensor]:
        """[batch, 1, hidden]: the mean of the request's states, of length 1; [batch, length]: where it is in reach.

        It is out of reach once a trace has been closed: the answer then follows from what the trace says. In the cache
        the states stand as the values of one more layer, and as its keys what is request, what is trace and what
        closes one, so that batches are cut, padded and joined like any layer's.
        """
        opened, closed = self.config.thinking_ids
        closes = (ids == closed) & real
        so_far = closes.long().cumsum(dim=1)
        if cache is not None and len(cache.layers) > self.config.num_hidden_layers:
            so_far = so_far + cache.layers[self.config.num_hidden_layers].keys[:, 0, :, 2].sum(1, True).long()
        thought = real & ~asked & (so_far == 0) & (ids != opened)
        keys = torch.stack([asked, thought, closes], dim=-1)[:, None].to(states.dtype)
        values = states[:, None]
        if cache is not None:
            keys, values = cache.update(keys, values, self.config.num_hidden_layers)
        counts = keys.sum(dim=2)
        mean = values.sum(dim=2) / counts[..., :1].clamp(min=1)
        reach = (so_far == 0) | (counts[..., 1] == 0)
        return functional.normalize(mean.float(), dim=-1), reach


class PocketForCausalLM(PocketPreTrained, GenerationMixin):
    """The pocket model with its output head, which is the input table."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: PocketConfig) -> None:
        super().__init__(config)
        self.model = PocketModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids: Tensor, logits_to_keep: int = 0, **options: Any) -> CausalLMOutputWithPast:
        output = self.model(input_ids, **options)
        hidden = output.last_hidden_state[:, -logits_to_keep:]
        return CausalLMOutputWithPast(logits=self.lm_head(hidden), past_key_values=output.past_key_values)


def pocket_model(recipe: Recipe, encoder: Any, chat: Chat) -> PocketForCausalLM:
    """The untrained model: the encoder as it is, its words' rows for the decoder's pieces, a decoder that copies.

    Tool rows are set apart, see model.py. Before any training the first decoder layer passes on what it attends
    to, so that copying a tool from the trace into the list has little to learn.
    """
    size, width = recipe.pocket, encoder.config.hidden_size
    words = chat.encoder_words
    ids = dict(zip((USER, ASSISTANT), chat.unit_ids((USER, ASSISTANT)), strict=True))
    config = PocketConfig(
        encoder=encoder.config,
        writer=Qwen3Config(
            vocab_size=1,
            hidden_size=width,
            intermediate_size=size.intermediate,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.heads,
            head_dim=width // size.heads,
            max_position_embeddings=recipe.max_seq_len,
        ),
        vocab_size=rounded(len(chat.tokenizer)),
        assistant_id=ids[ASSISTANT],
        thinking_ids=(*chat.open_ids, *chat.close_ids),
        standing_for={str(ids[USER]): words.cls_token_id, str(ids[ASSISTANT]): words.sep_token_id},
        pad_token_id=chat.pad_id,
        eos_token_id=chat.tokenizer.eos_token_id,
    )
    model = PocketForCausalLM(config)
    base = model.model
    with torch.no_grad():
        base.encoder.load_state_dict(encoder.state_dict())
        attention = base.writer.layers[0].self_attn
        for linear in (attention.v_proj, attention.o_proj):
            linear.weight.add_(torch.eye(width))
        base.embed_tokens.weight.copy_(_piece_rows(encoder, chat, config.vocab_size))
        opening = functional.normalize(base.embed_tokens.weight[chat.list_open_ids[-1]], dim=0)
        # measured beside the row of the nearest tool: a cosine to `opening` of .54 there and of .14 elsewhere
        base.gate.weight.copy_(5 * GATE_OPEN * opening / width**0.5)
        base.gate.bias.fill_(-1.7 * GATE_OPEN)
    return model.eval()  # as a model that was loaded: the tools' rows are read before any training


def _piece_rows(encoder: Any, chat: Chat, count: int) -> Tensor:
    """[count, width]: for every piece of text the mean row of the encoder's words for it; nothing a text can hold gets
    a small random row."""
    table = encoder.get_input_embeddings().weight
    rows = torch.randn(count, table.shape[1]) * 0.02
    for number in range(len(chat.tokenizer)):
        text = chat.tokenizer.decode([number]).strip()
        if ids := [word - FIRST_WORD for word in chat.asked_ids(text)]:
            rows[number] = table[ids].mean(dim=0)
    return rows


AutoConfig.register(PocketConfig.model_type, PocketConfig)
AutoModelForCausalLM.register(PocketConfig, PocketForCausalLM)


# The two vocabularies of the pocket model: what it writes with, and the words its encoder reads.
#
# In: an encoder's tokenizer. Out: a byte-level BPE learned from the encoder's own word list, commoner words counting
# more: it loses nothing of a text, case and spacing included, and depends on no snapshot, so a new rule or tool changes
# no word. Control and thinking tokens get the first ids; tool tokens are appended later.

CONTROL = (PAD, END, USER, ASSISTANT)
THINKING = (OPEN, CLOSE)
# how a word may be written, and how often beside " word", the form inside a sentence
FORMS = [(" {}", str.lower, 1.0), ("{}", str.lower, 0.3), ("{}", str.capitalize, 0.3)]
FORMS += [(" {}", str.capitalize, 0.15), ("{}", str.upper, 0.1)]
COMMONEST = 2000  # how often the first word counts; the n-th counts about 1/n of it (Zipf)
LISTS = ('["', '", "', '"]')  # one token, two (a space begins one) and one


def writer_tokenizer(encoder_words: Any, vocab_size: int) -> PreTrainedTokenizerFast:
    """`encoder_words`: the encoder's tokenizer, whose vocabulary lists commoner words first."""
    known = encoder_words.get_vocab()
    state = _learned(tuple(sorted(known, key=lambda piece: known[piece])), vocab_size)
    tokenizer = Tokenizer.from_str(state)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )


@lru_cache(maxsize=4)
def _learned(pieces: tuple[str, ...], vocab_size: int) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in (*CONTROL, *THINKING)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_written(pieces), trainer)
    # the trainer marks all reserved tokens special; thinking markers must survive decoding without specials
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in THINKING])
    return tokenizer.to_str()


def _written(pieces: tuple[str, ...]) -> Iterator[str]:
    """Every whole word of the list in each of its forms, as often as its rank says."""
    words = [piece.lstrip("\u2581") for piece in pieces if not piece.startswith("##")]
    words = [word for word in words if len(word) > 1 and word.isalpha() and word.isascii()]
    for rank, word in enumerate(words, start=1):
        for form, case, share in FORMS:
            text = form.format(case(word))
            for _ in range(max(1, round(share * COMMONEST * 20 / (rank + 20)))):
                yield text
    for text in LISTS:
        for _ in range(COMMONEST):
            yield text
