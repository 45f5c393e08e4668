/** Pages of the manual, which the gateway serves, in a sheet: their Markdown becomes elements, never markup. */
import type { Token } from 'markdown-it'
import { h, type VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { at } from '../base.ts'
import { ApiError, to, toApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { manual } from '../state.ts'
import { Sheet } from './sheet.ts'
import { Failure, Skeleton } from './states.ts'

interface Page {
  readonly title: string
  readonly tokens: readonly Token[]
}

/** The page that is asked for, such as `console#models`. */
export function Help() {
  const topic = manual.value
  const [name = '', section = ''] = topic?.split('#') ?? []
  const [page, setPage] = useState<Page>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    setPage(undefined)
    setError(undefined)
    if (name !== '') load(name).then(setPage, (thrown: unknown) => setError(toApiError(thrown)))
  }, [name])
  useEffect(() => {
    if (section === '') return
    // A section has a heading, or a line of a table that begins with its code.
    const headings = [...document.querySelectorAll('.manual :is(h3, h4, h5, td:first-child code)')]
    const named =
      headings.find(({ id }) => id === `help-${section}`) ??
      headings.find(({ textContent }) => textContent.split(', ').includes(section))
    named?.scrollIntoView()
  }, [page, section])
  if (topic === undefined) return null
  return html`<${Sheet} title=${page?.title ?? 'Manual'} onClose=${() => (manual.value = undefined)}>
    ${error && html`<${Failure} error=${error} />`}
    ${page ? html`<article class="manual prose">${elements(page.tokens, name)}</article>` : !error && html`<${Skeleton} lines=${10} />`}
  <//>`
}

async function load(name: string): Promise<Page> {
  const [{ default: markdown }, answer] = await Promise.all([
    import('markdown-it'),
    fetch(at(to.manual(name))),
  ])
  if (!answer.ok) throw new ApiError(answer.status, undefined, null)
  const tokens = markdown({ html: false }).parse(await answer.text(), {})
  const isTitle = tokens[0]?.tag === 'h1'
  return {
    title: isTitle ? tokens[1]!.content : 'Manual',
    tokens: isTitle ? tokens.slice(3) : tokens,
  }
}

interface Open {
  readonly tag: string
  readonly token: Token | undefined
  readonly inside: Content[]
}

function elements(tokens: readonly Token[], page: string): readonly Content[] {
  const open: Open[] = [{ tag: '', token: undefined, inside: [] }]
  for (const token of tokens) {
    const last = open.at(-1)!
    if (token.nesting > 0) open.push({ tag: tagOf(token), token, inside: [] })
    else if (token.nesting === 0) last.inside.push(leaf(token, page))
    else {
      open.pop()
      open.at(-1)!.inside.push(element(last, page))
    }
  }
  return open[0]!.inside
}

/** Headings stand below that of the sheet. */
function tagOf({ tag }: Token): string {
  const [, level] = /^h(\d)$/.exec(tag) ?? []
  return level === undefined ? tag : `h${Math.min(6, Number(level) + 1)}`
}

function element({ tag, token, inside }: Open, page: string): VNode {
  if (tag === 'a') return linkTo(String(token!.attrGet('href')), page, inside)
  const props =
    tag === 'table'
      ? { class: 'plain ruled' }
      : /^h\d$/.test(tag)
        ? { id: `help-${slugOf(inside)}` }
        : {}
  return h(tag, props, inside as VNode[])
}

function leaf(token: Token, page: string): Content {
  const { type, content, children } = token
  if (type === 'inline') return elements(children ?? [], page)
  if (type === 'softbreak') return ' '
  if (type === 'image') return html`<em>${content}</em>`
  if (type === 'code_inline') return html`<code>${content}</code>`
  if (type === 'fence' || type === 'code_block')
    return html`<pre tabindex="0" class="mono">${content}</pre>`
  return token.tag === '' ? content : h(token.tag, {})
}

/** A link to a page of the manual opens that one here; other hosts get a tab of their own. */
function linkTo(href: string, page: string, inside: readonly Content[]): VNode {
  if (/^https?:/.test(href))
    return html`<a href=${href} target="_blank" rel="noreferrer">${inside}</a>`
  const url = new URL(href, `http://manual/docs/${page}`)
  const [, named] = /^\/docs\/(.+)\.md$/.exec(url.pathname) ?? []
  const name = href.startsWith('#') ? page : named
  // What stands beside the manual is not served.
  if (name === undefined) return html`<span>${inside}</span>`
  const follow = (event: Event) => {
    event.preventDefault()
    manual.value = name + url.hash
  }
  return html`<a href=${to.manual(name)} onClick=${follow}>${inside}</a>`
}

function slugOf(inside: readonly Content[]): string {
  return textOf(inside)
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

function textOf(content: Content): string {
  if (Array.isArray(content)) return content.map(textOf).join('')
  if (typeof content === 'object' && content !== null)
    return textOf((content as VNode<{ children?: Content }>).props.children)
  return content ? String(content) : ''
}
