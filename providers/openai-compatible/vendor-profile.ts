import type { Host } from '../../src/plugin.ts'
import type { ThinkTags } from '../shared/think-tags.ts'
import type { Quirks } from './quirks.ts'

/** What is known about the answers of a deployment. */
export interface VendorProfile {
  readonly quirks: Quirks
  /** The model writes its reasoning into the answer, in these tags. */
  readonly tags: ThinkTags | undefined
  readonly fail: Host['fail']
}
