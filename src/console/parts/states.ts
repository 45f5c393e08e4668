/** Placeholders for data: loading, nothing there, an error, an incomplete answer. */
import type { ApiError, Loaded } from '../api.ts'
import { moment } from '../format.ts'
import type { Looked } from '../answers.ts'
import { html, type Content } from '../html.ts'
import { manual, preferences } from '../state.ts'
import { Button } from './button.ts'

/** Grey bars in the final layout, shown when loading takes longer than 150 ms. */
export function Skeleton({ lines = 6 }: { readonly lines?: number }) {
  return html`<div class="skeleton" aria-hidden="true">
    ${Array.from({ length: lines }, () => html`<div class="skeleton-line"></div>`)}
  </div>`
}

/** The kind of missing data, and the action that makes it. */
export function Empty({
  title,
  children,
}: {
  readonly title: string
  readonly children?: Content
}) {
  return html`<div class="empty" role="status">
    <p class="empty-title">${title}</p>
    ${children}
  </div>`
}

/** The API's own words, its code and the id of the request. */
export function Failure({
  error,
  onRetry,
  keptAt,
}: {
  readonly error: ApiError
  readonly onRetry?: () => void
  /** When the data that are still shown arrived. */
  readonly keptAt?: number
}) {
  const { zone } = preferences.value
  const kept = keptAt ? new Date(keptAt).toISOString() : undefined
  return html`<div class="notice bad" role="alert">
    <p>
      <strong>${error.message}</strong>
      ${
        error.status === 404 && error.code === 'unknown_url'
          ? ' This gateway does not answer that question.'
          : null
      }
    </p>
    <p class="muted">
      <code>${error.code}</code>
      ${error.requestId ? html` · request <code>${error.requestId}</code>` : null}
      ${kept ? ` · shown below: ${moment(kept, zone, Date.now())}` : null}
    </p>
    <div class="actions">
      ${onRetry && html`<${Button} onClick=${onRetry}>Try again<//>`}
      ${/^(?!network$|page$|http_)/.test(error.code) && html`<${Button} kind="quiet" onClick=${() => (manual.value = `troubleshooting#${error.code}`)}>What this means<//>`}
    </div>
  </div>`
}

export function Notice({
  tone = 'info',
  children,
}: {
  readonly tone?: 'info' | 'warn' | 'bad' | 'ok'
  readonly children?: Content
}) {
  return html`<div class=${`notice ${tone}`} role="status">${children}</div>`
}

/** Shows an answer in the state that it is in. The last good data stay, greyed, when a later request fails. */
export function Answered<Answer>({
  of,
  lines,
  children,
}: {
  readonly of: Loaded<Answer>
  readonly lines?: number
  readonly children: (data: Answer) => Content
}) {
  const { data, error, at, reload } = of
  if (data === undefined) {
    if (error) return html`<${Failure} error=${error} onRetry=${reload} />`
    return html`<${Skeleton} lines=${lines ?? 6} />`
  }
  return html`${error && html`<${Failure} error=${error} onRetry=${reload} keptAt=${at} />`}
    <div class=${error ? 'stale' : 'fresh'}>${children(data)}</div>`
}

/** That nothing is wrong, once everything was looked at since the start. */
export function Quiet({ looked, text }: { readonly looked: Looked; readonly text: string }) {
  const { done, of, complete } = looked
  return complete
    ? html`<p><span class="ok" aria-hidden="true">✓ </span>${text}</p>`
    : html`<p class="muted">Still looking: ${done} of ${of} accounts and keys so far.</p>`
}
