/** Endpoints without a conversation, as data: a request is one unit of work, and its answer one result. */
import type { BodyLimits } from '../../config/config.ts'
import type { GuardAdapter, OutputCodec } from '../../guard/adapter.ts'
import type { Model } from '../../models/catalog.ts'
import type { Estimate } from '../../money/holds.ts'
import type { UsageReport } from '../../money/plausible.ts'
import type {
  Billing,
  Call,
  Endpoint,
  MaskedTexts,
  ProviderAnswer,
  Receipt,
  WireFormat,
  ParsedRequest,
} from '../../pipeline/pipeline.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { ChangeTexts } from '../../masking/masking.ts'
import type { TextItem } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Billed } from './billing.ts'
import { mapStrings } from './texts.ts'
import { outboundMembers, sessionOf } from './body.ts'
import { billedJson, errorWriter, EventWriter, WholeWriter, type EventFormat } from './write.ts'
import type { ChainStep } from '../../stream/chain.ts'

interface UnitRequest {
  readonly model: string
  readonly policy?: Policy
}

interface UnitWork<In, Out> {
  readonly input: In
  readonly outbound: Out
  readonly model: Model
}

type EndpointMember = 'operation' | 'modality' | 'errorField' | 'slowStart' | 'addresses'
type GuardMember = 'unreadable' | 'outputRepeatsInput'

export interface UnitEndpoint<In extends UnitRequest, Out, Part extends object>
  extends
    Pick<Endpoint<In, Out, Part>, EndpointMember>,
    Partial<Pick<Endpoint<In, Out, Part>, 'check' | 'toUpstream' | 'fit'>>,
    Pick<WireFormat<In, Part>, 'path' | 'files'>,
    Pick<Billing<In, Part>, 'hidden' | 'questions'>,
    Pick<GuardAdapter<In, Part>, GuardMember> {
  readonly body: NonNullable<WireFormat['body']>
  /** Reads, bounds and validates a body. @throws InvalidRequest */
  toInput(incoming: Incoming, limits: BodyLimits): Promise<In>
  /** Whether the answer is sent as it comes; by default it never is. */
  streams?(input: In): boolean
  /** Whether equal requests may get a stored answer. */
  readonly stored?: true
  /** Whether its texts are masked for vendors; without it personal data is refused for keys that mask it. */
  readonly mask?: Pick<MaskedTexts<In, Part>, 'restoring'>
  /** Members that no provider gets, in addition to those of all endpoints. */
  readonly own?: readonly string[]
  /** The members that replace the content once it is not needed any more. */
  readonly content: Partial<In>
  estimate(input: In, model: Model): Estimate
  answer(work: UnitWork<In, Out>): ProviderAnswer<Part>
  /** Whether a part is the last one, which gets the receipt; by default every part is. */
  isEnd?(part: Part): part is Part & Billed
  /** Replaces the charge at the end. */
  readonly attach?: Billing<In, Part>['attach']
  usage(receipt: Receipt, call: Call): object
  texts(input: In): readonly TextItem[]
  /** What guards read of an answer; by default it has no text. */
  codec?(): OutputCodec<Part>
  /** The body of a whole answer without `usage`. Absent where `write` is there. */
  json?(parts: readonly Part[], call: Call): object
  text?(parts: readonly Part[], call: Call): string | undefined
  events?(call: Call): EventFormat<Part>
  /** Replaces `json`, `text` and `events`. */
  readonly write?: WireFormat<In, Part>['write']
}

export interface UnitRoute<In, Out, Part> {
  readonly endpoint: Endpoint<In, Out, Part>
  readonly format: WireFormat<In, Part>
}

const AS_THEY_ARE = {
  pack: (parts: readonly unknown[]) => parts,
  unpack: (_: unknown, parts: readonly any[]) => parts,
}

export function defineUnitEndpoint<In extends UnitRequest, Out, Part extends object>(
  unit: UnitEndpoint<In, Out, Part>,
): UnitRoute<In, Out, Part> {
  const { path, body, files, operation, modality, errorField, slowStart, addresses } = unit
  const { streams = () => false, toUpstream = (input) => outboundMembers(input, unit.own) as Out } =
    unit
  return {
    endpoint: {
      operation,
      modality,
      errorField,
      ...(slowStart && { slowStart }),
      ...(addresses && { addresses }),
      check: unit.check ?? (() => {}),
      toUpstream,
      ...(unit.fit && { fit: unit.fit }),
      withoutContent: (request) => ({ ...request, ...unit.content }),
      normalize: ({ request, target: { outbound, model } }) =>
        unit.answer({ input: request.input as In, outbound: outbound as Out, model }),
      billing: billingOf(unit),
      ...(unit.stored && { stored: AS_THEY_ARE }),
      guard: guardOf(unit),
      ...(unit.mask && { mask: async () => ({ map: mapTexts, ...unit.mask }) }),
    },
    format: {
      path,
      body,
      ...(files && { files }),
      async read(incoming, limits) {
        const input = await unit.toInput(incoming, limits)
        return parsedRequest(incoming, input, streams(input))
      },
      write: unit.write ?? writeOf(unit),
      writeError: errorWriter(unit.usage),
    },
  }
}

const NO_TEXT = new Set(['model', 'policy', 'provider', 'encoding_format'])

/** All texts of a request but addresses. */
function mapTexts<In extends object>(input: In, change: ChangeTexts): In {
  const one = (text: string) => change([text], 'plain')[0]!
  const stays = (name: string, value: unknown) => name === 'url' && typeof value === 'string'
  const { ...copy } = input as Record<string, unknown>
  for (const [name, value] of Object.entries(copy)) {
    if (!NO_TEXT.has(name)) copy[name] = mapStrings(value, one, stays)
  }
  return copy as In
}

function billingOf<In extends UnitRequest, Part extends object>({
  estimate,
  hidden,
  questions,
  attach,
  isEnd = (part: Part): part is Part => part !== undefined,
}: UnitEndpoint<In, any, Part>): Billing<In, Part> {
  return {
    estimate: ({ input }, model) => estimate(input, model),
    ...(hidden && { hidden }),
    ...(questions && { questions }),
    attach: attach ?? ((call) => new ReceiptAtEnd(call, isEnd)),
  }
}

/** A request is one turn, and an answer one choice. A refusal is always an error: there is no text to put it in. */
function guardOf<In extends UnitRequest, Part extends object>({
  texts,
  codec,
  unreadable,
  outputRepeatsInput,
}: UnitEndpoint<In, any, Part>): GuardAdapter<In, Part> {
  return {
    inputTexts: (input) => ({ items: texts(input), refusedTurns: [] }),
    choices: () => 1,
    outputCodec: codec ?? (() => SILENT),
    ...(!codec && { outputIsSilent: true }),
    ...(unreadable && { unreadable }),
    ...(outputRepeatsInput && { outputRepeatsInput }),
  }
}

/** The codec of answers of one part that hold no text. */
const SILENT: OutputCodec<any> = {
  split: (part, take) => take({ kind: 'finish', choice: 0, part }),
  cut: ({ part }) => part,
}

function writeOf<Part extends object>({
  json,
  text,
  events,
  usage,
}: UnitEndpoint<any, any, Part>): WireFormat<any, Part>['write'] {
  return (call, out, done) => {
    if (events && call.request.stream) return new EventWriter(call, out, done, events(call))
    return new WholeWriter<Part>(call, out, done, (parts) => {
      const plain = text?.(parts, call)
      if (plain !== undefined) return { text: plain, type: 'text/plain; charset=utf-8' }
      const { receipt } = parts.at(-1) as Billed
      const billed = billedJson(receipt!, usage(receipt!, call))
      return { text: JSON.stringify({ ...json!(parts, call), ...billed }) }
    })
  }
}

/**
 * The state of an answer that comes whole.
 * @param partsOf parts of the provider's answer; throws where it is none
 * @param usageOf usage of the provider's answer
 */
export function wholeAnswer<Result extends object, Part>(
  partsOf: (result: Result) => readonly Part[],
  usageOf: (result: Result) => UsageReport,
): ProviderAnswer<Part> {
  let answer: Result
  const whole = (result: Result): readonly Part[] => {
    answer = result
    return partsOf(result)
  }
  // A provider that answers in parts has none of what was asked for.
  const refuse = () => void whole({} as Result)
  return { steps: [{ push: refuse, end: refuse }], whole, usage: () => usageOf(answer) }
}

/** Retains the last part until the parts run out, and puts the receipt on it. */
class ReceiptAtEnd<Part, End extends Part & Billed> implements ChainStep<Part, Part | End> {
  readonly #call: Call
  readonly #isEnd: (part: Part) => part is End
  #end: End | undefined

  constructor(call: Call, isEnd: (part: Part) => part is End) {
    this.#call = call
    this.#isEnd = isEnd
  }

  push(part: Part, emit: (part: Part) => void): void {
    if (this.#isEnd(part)) {
      this.#end = part
      return
    }
    this.#call.answer.produced = true
    emit(part)
  }

  end(emit: (part: End) => void): void {
    emit({ ...this.#end!, receipt: this.#call.charge!.price()! })
  }
}

/** The parsed request of an endpoint whose input has `model` and `policy`, and no conversation. */
function parsedRequest<In extends { readonly model: string; readonly policy?: Policy }>(
  incoming: Incoming,
  input: In,
  stream: boolean,
): ParsedRequest<In> {
  const { model, policy } = input
  const session = sessionOf(incoming)
  return { input, model, stream, policy, session, affinityToken: undefined }
}
