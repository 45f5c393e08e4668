/** A part of a screen with a head. */
import { html, type Content } from '../html.ts'

/** @param more the content at the end of the head: a link to the whole, a button */
export function Panel({
  title,
  more,
  children,
}: {
  readonly title: Content
  readonly more?: Content
  readonly children?: Content
}) {
  return html`<section class="panel">
    <header>
      <h2>${title}</h2>
      ${more}
    </header>
    <div class="panel-body">${children}</div>
  </section>`
}
