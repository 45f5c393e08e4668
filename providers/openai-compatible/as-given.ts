/**
 * Reasoning of a server of which no place for it is known: it goes back into the member in which it came. The `id` of an
 * entry tells that member, the call that had it, and the server's own id: `up:<member>[@<call id>][#<own id>]`.
 */
import type { ReasoningDetail } from '../../src/plugin.ts'

const MARK = 'up:'

/** Where reasoning stood in an answer. */
interface Place {
  readonly member: string
  /** The id of the call, or its number where the server gave none. */
  readonly call?: string | undefined
  /** The server's own id of the entry. */
  readonly own?: string | null | undefined
}

/** The `id` of reasoning that goes back to this place. */
export function markOf({ member, call, own }: Place): string {
  const at = call === undefined ? '' : `@${encodeURIComponent(call)}`
  return MARK + member + at + (own ? `#${own}` : '')
}

function placeOf({ id }: ReasoningDetail): Place | undefined {
  const [, member, call, own] = /^up:(\w+)(?:@([^#]*))?(?:#([^]*))?$/.exec(id ?? '') ?? []
  return member === undefined ? undefined : { member, call, own }
}

/** Members with the signature of a thought, on a call or on the message. */
interface SignatureMember {
  of(bearer: any): unknown
  with(signature: string): unknown
}

const SIGNATURES: Readonly<Record<string, SignatureMember>> = {
  extra_content: {
    of: ({ extra_content: extra }) => extra?.google?.thought_signature,
    with: (thought_signature) => ({ google: { thought_signature } }),
  },
  provider_specific_fields: {
    of: ({ provider_specific_fields: fields }) => fields?.thought_signature,
    with: (thought_signature) => ({ thought_signature }),
  },
  thoughtSignature: {
    of: ({ thoughtSignature }) => thoughtSignature,
    with: (signature) => signature,
  },
  thinking_signature: {
    of: ({ thinking_signature }) => thinking_signature,
    with: (signature) => signature,
  },
}
const MEMBERS = Object.keys(SIGNATURES)

/** Members with the text of reasoning. */
const TEXTS = ['reasoning_content', 'reasoning']

/** The member with the text of a delta's reasoning; undefined for none. */
export function textMember(delta: any): string | undefined {
  return TEXTS.find((name) => typeof delta[name] === 'string' && delta[name] !== '')
}

export function hasSignature(delta: any): boolean {
  for (const member of MEMBERS) if (delta[member]) return true
  return false
}

/** Reads the signatures of one choice. Servers repeat them with every part of a call. */
export class Signatures {
  /** The id of each call, which only its first part has. */
  readonly #calls = new Map<number, string>()
  readonly #seen = new Map<string, string>()

  read(delta: any): ReasoningDetail[] {
    const details: ReasoningDetail[] = []
    this.#add(delta, undefined, details)
    const calls: readonly any[] = Array.isArray(delta.tool_calls) ? delta.tool_calls : []
    calls.forEach((part, position) => {
      if (typeof part !== 'object' || part === null) return
      const index: number = Number.isInteger(part.index) ? part.index : position
      if (typeof part.id === 'string' && part.id !== '') this.#calls.set(index, part.id)
      this.#add(part, this.#calls.get(index) ?? String(index), details)
    })
    return details
  }

  #add(bearer: any, call: string | undefined, details: ReasoningDetail[]): void {
    for (const member of MEMBERS) {
      const data = SIGNATURES[member]!.of(bearer)
      if (typeof data !== 'string' || data === '') continue
      const id = markOf({ member, call })
      if (this.#seen.get(id) === data) continue
      this.#seen.set(id, data)
      details.push({ type: 'reasoning.encrypted', data, id, format: 'unknown' })
    }
  }
}

/**
 * Puts reasoning back where it stood. What other vendors gave goes nowhere.
 * @param text the text of reasoning that the client sent without its entries
 * @param member the member in which the server gave its last text
 */
export function replayAsGiven(
  out: Record<string, any>,
  text: string,
  details: readonly ReasoningDetail[],
  member: string | undefined,
): void {
  if (details.length === 0 && text && member !== undefined) out[member] = text
  const own: ReasoningDetail[] = []
  for (const { id, ...detail } of details) {
    const place = placeOf({ ...detail, id: id ?? null })
    if (!place) continue
    if (TEXTS.includes(place.member)) {
      const piece = detail.text ?? detail.summary ?? ''
      if (piece) out[place.member] = (out[place.member] ?? '') + piece
    } else if (place.member === 'reasoning_details') {
      own.push(place.own === undefined ? detail : { ...detail, id: place.own })
    } else if (Object.hasOwn(SIGNATURES, place.member) && detail.data) {
      sign(out, place, SIGNATURES[place.member]!.with(detail.data))
    }
  }
  if (own.length > 0) out.reasoning_details = own
}

/** Puts a signature on its call, or on the message. */
function sign(out: Record<string, any>, { member, call }: Place, value: unknown): void {
  if (call === undefined) {
    out[member] = value
    return
  }
  const calls: readonly any[] = out.tool_calls ?? []
  const named = calls.findIndex(({ id }) => encodeURIComponent(id) === call)
  const at = named < 0 ? Number(call) : named
  if (calls[at]) out.tool_calls = calls.with(at, { ...calls[at], [member]: value })
}

/** Models about which it is remembered where they say their reasoning. */
const MAX_MODELS = 1000

/** The member in which a server gave the last reasoning of each model. */
export class TextMembers {
  readonly #members = new Map<string, string>()

  of(model: string): string | undefined {
    return this.#members.get(model)
  }

  /** Notes the members of one model. Made here, the function keeps nothing of a request while its answer comes. */
  noterOf(model: string): (member: string) => void {
    return (member) => this.#note(model, member)
  }

  #note(model: string, member: string): void {
    if (this.#members.get(model) === member) return
    this.#members.delete(model)
    this.#members.set(model, member)
    if (this.#members.size > MAX_MODELS) {
      this.#members.delete(this.#members.keys().next().value!)
    }
  }
}
