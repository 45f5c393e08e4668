/** What may differ between vendors. The differences of each are in `rows.ts`. */
import type { AudioQuirks } from './audio.ts'
import type {
  CallRules,
  TakenParts,
  MessageQuirks,
  Outgoing,
  Replay,
  ToolQuirks,
} from './content.ts'
import type { ImageQuirks } from './images.ts'
import type { EmbeddingQuirks } from './embeddings.ts'
import type { KnownForm } from './known.ts'
import type { UsageQuirks } from './members.ts'
import type { ToReasoning } from './reasoning.ts'
import type { Host } from '../../src/plugin.ts'
import type { ThinkTags } from '../shared/think-tags.ts'

/** Differences of one vendor from OpenAI. An absent member means that there is none. */
export interface Quirks extends MessageQuirks, ToolQuirks, UsageQuirks {
  /**
   * The members of the body that the vendor knows. Without it unknown members pass. Not among them are those by which the vendor
   * does what no usage tells and what it bills apart: its own searches, code that it runs, answers that are fetched later.
   */
  readonly knows?: ReadonlySet<string>
  /** Members below those of the body that the vendor knows. Without it unknown members pass. */
  readonly form?: KnownForm
  /** Members of the request that this vendor does not have. */
  readonly drops?: readonly string[]
  /** Members that this vendor does not have and that are refused, because they change the answer. */
  readonly lacks?: readonly ('n' | 'logprobs')[]
  /** Members that a model refuses, by its name and the rest of the body. */
  readonly refuses?: (model: string, body: Readonly<Record<string, unknown>>) => readonly string[]
  /** OpenAI's member names, and the vendor's. */
  readonly renames?: Readonly<Record<string, string>>
  /** Upper limits of numbers. */
  readonly caps?: Readonly<Record<string, number>>
  /** Members that ask for usage in a stream. */
  readonly streamed: Readonly<Record<string, unknown>>
  readonly toReasoning: ToReasoning
  /** Where earlier reasoning goes; it is removed when absent. */
  readonly replay?: Replay
  /** Replays reasoning only when the deployment's options ask for it, because other models of the vendor refuse it. */
  readonly replayOnRequest?: true
  /** What is expected of calls and their results; by default a result for each call, directly after the calls. */
  readonly calls?: CallRules
  /** Refuses a result that belongs to no call. */
  readonly refusesStray?: true
  /** Types of parts that the messages of a role may have; by default any. */
  readonly takes?: TakenParts
  /** Parts whose addresses are fetched; by default files. */
  readonly fetches?: readonly ('image_url' | 'file')[]
  /** A message has to name JSON where it is asked for; `schema`: the vendor takes no schema either. */
  readonly jsonInPrompt?: 'word' | 'schema'
  /** Sends `session_id` as the prompt cache key. */
  readonly sessionAsCacheKey?: true
  readonly images?: ImageQuirks
  readonly audio?: AudioQuirks
  readonly embeddings?: EmbeddingQuirks
  readonly completions?: CompletionQuirks
  /** Final changes to the tools. */
  readonly toTools?: (tools: readonly any[]) => readonly any[]
  /** Final changes to the whole conversation. */
  readonly arrange?: (messages: readonly Outgoing[]) => Outgoing[]
}

/** What is known about the answers of a deployment. */
export interface VendorProfile {
  readonly quirks: Quirks
  /** The model writes its reasoning into the answer, in these tags. */
  readonly tags: ThinkTags | undefined
  readonly fail: Host['fail']
  /** It is called with the member that has the text of the reasoning, once for each choice. */
  readonly noteMember?: (member: string) => void
}

/** Differences of a vendor in text completions. An absent member means that it behaves like OpenAI. */
export interface CompletionQuirks {
  /** Path below the address of the API; one that begins with a slash is below its host. */
  readonly path?: string
  /** All members of the request that the vendor knows. Without it unknown members pass. */
  readonly knows?: ReadonlySet<string>
  /** OpenAI's member names, and the vendor's. */
  readonly renames?: Readonly<Record<string, string>>
  /** It takes one prompt at a time, as text. */
  readonly onePrompt?: true
}
