/** Options of these plugins and of their deployments. */
import * as v from 'valibot'
import type { OptionField } from '../../src/plugin.ts'
import { mergeHeaders } from '../shared/http.ts'
import { SCALE } from './reasoning.ts'
import { THINK_TAGS } from '../shared/think-tags.ts'

/** Options of a deployment, for plugins that add their own. */
export const deploymentMembers = {
  /** The model writes its reasoning into the answer, in these tags. */
  reasoning: v.optional(v.picklist(THINK_TAGS)),
  /** Whether reasoning of earlier turns is sent to the model. The default is what the vendor expects. */
  replayReasoning: v.optional(v.boolean()),
  /** Members of the request, in the vendor's names, that this model refuses. */
  omit: v.optional(v.array(v.string())),
  /** Levels of reasoning effort that the model has; none where the list is empty. The default follows from its name. */
  effort: v.optional(
    v.pipe(
      v.array(v.picklist(SCALE)),
      v.transform((levels) => SCALE.filter((level) => levels.includes(level))),
    ),
  ),
  /** Most inputs of one request for embeddings; more are sent in several. By default as the vendor takes. */
  batch: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1, 'a whole number above 0'))),
  /** The model calls a tool when it has to, although the vendor's row says otherwise. */
  forcedTools: v.optional(v.boolean()),
  /** Puts an answer between results of tools and the next message. */
  bridgeTools: v.optional(v.boolean()),
}

/** Those of them that may be set at run time, for plugins that add their own. */
export const deploymentFields: readonly OptionField[] = [
  { name: 'reasoning', label: 'Reasoning in the answer', kind: 'choice', choices: THINK_TAGS },
  { name: 'replayReasoning', label: 'Send earlier reasoning', kind: 'flag' },
  { name: 'omit', label: 'Members that the model refuses', kind: 'list', example: 'temperature' },
  { name: 'effort', label: 'Levels of reasoning effort', kind: 'list', example: 'low, high' },
  { name: 'batch', label: 'Most inputs of one request', kind: 'number' },
  { name: 'forcedTools', label: 'Calls a tool when it has to', kind: 'flag' },
  { name: 'bridgeTools', label: 'Answer after results of tools', kind: 'flag' },
]

/** Options of a deployment. */
const deploymentOptions = v.strictObject(deploymentMembers)
/** Validated options of a deployment. */
export type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

/** Headers of every JSON request. The operator's headers win over the vendor's. */
export function jsonHeaders(
  vendor: Readonly<Record<string, string>>,
  operator: Readonly<Record<string, string>>,
): Record<string, string> {
  const common = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  }
  return mergeHeaders({ ...common, ...vendor }, operator)
}
