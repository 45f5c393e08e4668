/** An operator's hands: the same work by keys alone, or by a pointer. Both count what they do. */
import type { Locator, Page } from 'playwright-core'

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
  /** Chooses the option that begins with this. */
  choose(label: string, option: string): Promise<void>
  /** Opens the row that has this text. */
  open(text: string): Promise<void>
}

/** Keys alone. */
export class Keyboard implements Hands {
  count = 0
  letters = 0
  readonly #page: Page

  constructor(page: Page) {
    this.#page = page
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
    if (shortcut !== undefined) return this.#key(shortcut)
    await this.#tabTo(name)
    await this.#key('Enter')
  }

  async fill(label: string, text: string, shortcut?: string): Promise<void> {
    const isThere = (await this.#page.evaluate(nameOfFocused)) === label
    if (shortcut !== undefined && !isThere) {
      await this.#key('Escape')
      await this.#key(shortcut)
    }
    await this.#tabTo(label)
    await this.#key('Control+A')
    await this.#type(text)
  }

  async choose(label: string, option: string): Promise<void> {
    await this.#tabTo(label)
    await this.#type(option)
  }

  async open(text: string): Promise<void> {
    await this.#page.waitForSelector(`tbody tr:has-text("${text}")`)
    for (let i = 0; i < 40; i++) {
      await this.#key('j')
      const row = await this.#page.textContent('tr:has(.row-link:focus)')
      if (row?.includes(text)) return this.#key('Enter')
    }
    throw new Error(`no row has ${text}`)
  }

  async #key(key: string): Promise<void> {
    this.count++
    await this.#page.keyboard.press(key)
  }

  async #type(text: string): Promise<void> {
    this.letters += text.length
    await this.#page.keyboard.type(text)
  }

  /** Moves the focus by Tab until the element with this name has it; fails where no key leads to it. */
  async #tabTo(name: string): Promise<void> {
    for (let i = 0; i < 120; i++) {
      const focused = await this.#page.evaluate(nameOfFocused)
      if (focused === name || focused.startsWith(`${name} (`)) return
      await this.#key('Tab')
    }
    throw new Error(`the keyboard does not lead to ${name}`)
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

/** In the page: what a reader calls the element with the focus. */
function nameOfFocused(): string {
  const { document } = globalThis as unknown as {
    document: { activeElement: FocusedElement | null }
  }
  const element = document.activeElement
  if (!element) return ''
  const label = element.labels?.[0]?.querySelector?.('span')?.textContent
  const all = element.labels?.[0]?.textContent ?? ''
  return (element.getAttribute('aria-label') || label || all || element.textContent || '')
    .trim()
    .replace(/\s+/g, ' ')
}

interface FocusedElement {
  readonly labels?:
    | readonly {
        readonly textContent: string
        querySelector?(selector: string): { readonly textContent: string } | null
      }[]
    | null
  readonly textContent: string | null
  getAttribute(name: string): string | null
}
