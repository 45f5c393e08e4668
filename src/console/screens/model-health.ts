/** The state of a deployment, in word and shape. */
import type { HealthState } from '../answers.ts'
import { html } from '../html.ts'

const MARKS: Readonly<Record<HealthState, string>> = { healthy: '●', probing: '◐', cooldown: '○' }
const TONES: Readonly<Record<HealthState, string>> = {
  healthy: 'ok',
  probing: 'warn',
  cooldown: 'bad',
}

export function Health({ state }: { readonly state: HealthState }) {
  return html`<span class=${TONES[state]}>${MARKS[state]} ${state}</span>`
}
