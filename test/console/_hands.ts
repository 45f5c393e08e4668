/** An operator's hands: the same work by keys alone, or by a pointer. Both count what they do. */
import type { Locator, Page } from 'playwright-core'
import { shoot } from './_browser.ts'

/** What an operator does on a page. */
export interface Hands {
  /** What was done: keys or clicks, without the letters of texts. */
  readonly count: number
  /** Letters of texts. */
  readonly letters: number
  /** Goes to a place of the frame. */
  place(name: string, letter: string): Promise<void>
  /** Looks for a text, and goes to what is found first. */
  search(text: string): Promise<void>
  /** Presses a button or follows a link. @param shortcut that does the same, for keys */
  press(name: string, shortcut?: string): Promise<void>
  /** @param shortcut that leads to the field, for keys */
  fill(label: string, text: string, shortcut?: string): Promise<void>
  /** Chooses the option that begins with this. @param shortcut that leads to the field, for keys */
  choose(label: string, option: string, shortcut?: string): Promise<void>
  /** Opens the row that has this text. */
  open(text: string): Promise<void>
}

/** Keys alone. After each key that moves it, the focus has to be seen. */
export class Keyboard implements Hands {
  count = 0
  letters = 0
  readonly #page: Page
  readonly #pictures: string | undefined
  #step = 0

  /** @param pictures a folder for a picture of each step, as it is when the focus has arrived */
  constructor(page: Page, pictures?: string) {
    this.#page = page
    this.#pictures = pictures
  }

  async place(_name: string, letter: string): Promise<void> {
    await this.#key('g')
    await this.#key(letter)
  }

  async search(text: string): Promise<void> {
    await this.#key('/')
    await this.#type(text)
    await this.#page.waitForSelector('.hits li[id]')
    await this.#key('Enter')
  }

  async press(name: string, shortcut?: string): Promise<void> {
    if (shortcut !== undefined) return void (await this.#key(shortcut))
    await this.#tabTo(name)
    await this.#key('Enter')
  }

  async fill(label: string, text: string, shortcut?: string): Promise<void> {
    if (shortcut !== undefined && (await this.#focused()) !== label) {
      await this.#key('Escape')
      await this.#key(shortcut)
    }
    await this.#tabTo(label)
    await this.#key('Control+A')
    await this.#type(text)
  }

  async choose(label: string, option: string, shortcut?: string): Promise<void> {
    if (shortcut === undefined) await this.#tabTo(label)
    else await this.#key(shortcut)
    await this.#type(option)
  }

  async open(text: string): Promise<void> {
    await this.#page.waitForSelector(`tbody tr:has-text("${text}")`)
    for (let i = 0; i < 40; i++) {
      await this.#key('j')
      const row = await this.#page.textContent('tr:has(.row-link:focus)')
      if (!row?.includes(text)) continue
      await this.#arrived(text)
      return void (await this.#key('Enter'))
    }
    throw new Error(`no row has ${text}`)
  }

  /** @returns the name of what has the focus then */
  async #key(key: string): Promise<string> {
    this.count++
    await this.#page.keyboard.press(key)
    return this.#focused()
  }

  async #type(text: string): Promise<void> {
    this.letters += text.length
    await this.#page.keyboard.type(text)
  }

  /** Moves the focus by Tab until the element with this name has it; fails where no key leads to it. */
  async #tabTo(name: string): Promise<void> {
    let focused = await this.#focused()
    for (let i = 0; focused !== name && !focused.startsWith(`${name} (`); i++) {
      if (i === 120) throw new Error(`the keyboard does not lead to ${name}`)
      focused = await this.#key('Tab')
    }
    await this.#arrived(name)
  }

  /** @returns the name of the element with the focus. @throws Error where a reader cannot see that it has it */
  async #focused(): Promise<string> {
    const { name, hidden } = await this.#page.evaluate(focusOf)
    if (hidden !== undefined) throw new Error(`the focus on ${name} is not seen: ${hidden}`)
    return name
  }

  async #arrived(name: string): Promise<void> {
    if (this.#pictures === undefined) return
    const step = String(++this.#step).padStart(2, '0')
    await shoot(this.#page, `${this.#pictures}/${step} ${name.replaceAll(/\W+/g, ' ')}`)
  }
}

/** A pointer, and keys for texts alone. */
export class Pointer implements Hands {
  count = 0
  letters = 0
  readonly #page: Page

  constructor(page: Page) {
    this.#page = page
  }

  async place(name: string): Promise<void> {
    this.count++
    await this.#page.locator('.places').getByRole('link', { name }).click()
  }

  async search(text: string): Promise<void> {
    await this.fill('Search requests, keys, accounts, models', text)
    this.count++
    await this.#page.locator('.hits li[id]').first().click()
  }

  async press(name: string): Promise<void> {
    this.count++
    const within = await this.#front()
    await within.locator('button, a, summary').filter({ hasText: name }).first().click()
  }

  async fill(label: string, text: string): Promise<void> {
    const field = await this.#field(label)
    this.count++
    await field.click({ clickCount: 3 })
    this.letters += text.length
    await field.fill('')
    await this.#page.keyboard.type(text)
  }

  /** A click opens the list, and one chooses. */
  async choose(label: string, option: string): Promise<void> {
    this.count += 2
    const field = await this.#field(label)
    const texts = await field.locator('option').allTextContents()
    await field.selectOption({
      label: texts.find((text) => text.trim().startsWith(option))!.trim(),
    })
  }

  async open(text: string): Promise<void> {
    this.count++
    await this.#page.locator(`tbody tr:has-text("${text}") .row-link`).first().click()
  }

  async #field(label: string): Promise<Locator> {
    return (await this.#front()).getByLabel(label, { exact: true })
  }

  /** The dialog, where one is open, and else the page. */
  async #front(): Promise<Locator> {
    const dialog = this.#page.locator('dialog')
    return (await dialog.count()) > 0 ? dialog.last() : this.#page.locator('body')
  }
}

/** In the page: what a reader calls the element with the focus, and why the focus is not seen. */
function focusOf(): { name: string; hidden?: string } {
  const { document, getComputedStyle, innerHeight, innerWidth } = globalThis as unknown as Shown
  const element = document.activeElement
  // The page and its main part have it while no control does.
  if (!element || ['BODY', 'MAIN', 'DIALOG'].includes(element.tagName)) return { name: '' }
  const label = element.labels?.[0]?.querySelector?.('span')?.textContent
  const all = element.labels?.[0]?.textContent ?? ''
  const text = element.getAttribute('aria-label') || label || all || element.textContent || ''
  const name = text.trim().replace(/\s+/g, ' ')
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element)
  if (outlineStyle === 'none' || Number.parseFloat(outlineWidth) < 2)
    return { name, hidden: `outline ${outlineStyle} ${outlineWidth}` }
  if (/transparent|, 0\)$/.test(outlineColor)) return { name, hidden: outlineColor }
  const { left, right, top, bottom } = element.getBoundingClientRect()
  const x = (Math.max(left, 0) + Math.min(right, innerWidth)) / 2
  const y = (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2
  const above = document.elementFromPoint(x, y)
  const isAbove = above && (element.contains(above) || above.contains(element))
  return isAbove ? { name } : { name, hidden: `at ${x}, ${y} is ${above?.outerHTML.slice(0, 80)}` }
}

interface Shown {
  readonly document: {
    readonly activeElement: FocusedElement | null
    elementFromPoint(x: number, y: number): FocusedElement | null
  }
  readonly innerHeight: number
  readonly innerWidth: number
  getComputedStyle(element: FocusedElement): {
    readonly outlineStyle: string
    readonly outlineWidth: string
    readonly outlineColor: string
  }
}

interface FocusedElement {
  readonly tagName: string
  readonly outerHTML: string
  readonly labels?:
    | readonly {
        readonly textContent: string
        querySelector?(selector: string): { readonly textContent: string } | null
      }[]
    | null
  readonly textContent: string | null
  getAttribute(name: string): string | null
  contains(other: FocusedElement): boolean
  getBoundingClientRect(): { left: number; right: number; top: number; bottom: number }
}
