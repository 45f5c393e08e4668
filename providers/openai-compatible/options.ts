/** What operators say about vendors and models of this kind. */
import * as v from 'valibot'
import { THINK_TAGS } from '../shared/think-tags.ts'

/** Members of `options` that all these plugins have. */
export const sharedOptions = {
  /** Sent with every request; wins over the headers sent otherwise. */
  headers: v.optional(v.record(v.string(), v.string()), {}),
}

/** An API key that has to be there. */
export const apiKey = v.pipe(v.string(), v.nonEmpty('an API key'))

/** An address, up to and without `/chat/completions`. */
export const baseURL = v.pipe(v.string(), v.url())

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

/** The headers of every request: the vendor's, and over them the operator's. */
export function headersOf(
  vendor: Readonly<Record<string, string>>,
  operator: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...vendor,
  }
  for (const [name, value] of Object.entries(operator)) headers[name.toLowerCase()] = value
  return headers
}

/** An address and a path below it. */
export function under(base: string, path: string): string {
  return `${base.replace(/\/+$/, '')}/${path}`
}
