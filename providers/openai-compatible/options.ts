/** What operators say about vendors and models of this kind. */
import * as v from 'valibot'
import { mergeHeaders } from '../shared/http.ts'
import { THINK_TAGS } from '../shared/think-tags.ts'

/** Members of a deployment's options. */
export const deploymentMembers = {
  /** The model thinks inside its answer, in tags. */
  reasoning: v.optional(v.picklist(THINK_TAGS)),
  /** Whether reasoning of earlier turns goes back to the model; by default as the vendor wants it. */
  replayReasoning: v.optional(v.boolean()),
  /** Members of the request, in the vendor's own names, that this model refuses. */
  omit: v.optional(v.array(v.string())),
}

/** The options of a deployment. */
export const deploymentOptions = v.strictObject(deploymentMembers)
export type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

/** The headers of every request with JSON. The operator's headers win over the vendor's. */
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
