/** An operator's hands: the same work by keys alone, or by a pointer. Both count what they do. */
import type { FileChooser, Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { shoot } from './_browser.ts'

/** What an operator does on a page. */
export interface Hands {
  /** What was done: keys or clicks, without the letters of texts. */
  readonly count: number
  /** Letters of texts. */
  readonly letters: number
  /** Goes to a place of the frame. */
  place(name: string, letter: string): Promise<void>
  /** Types into the search of the frame. @param isPasted whether it is pasted, which costs no letters */
  search(text: string, isPasted?: boolean): Promise<void>
  /** Chooses a hit of the search, or with a verb what can be done with it. */
  hit(text: string, verb?: string): Promise<void>
  /** Presses a button or follows a link. @param shortcut that does the same, for keys */
  press(name: string, shortcut?: string): Promise<void>
  /** Ends the form that has the focus. */
  submit(name: string): Promise<void>
  /** @param shortcut that leads to the field, for keys */
  fill(label: string, text: string, shortcut?: string): Promise<void>
  /** Pastes, which costs no letters. */
  paste(label: string, text: string): Promise<void>
  /** Chooses the option that begins with this. @param shortcut that leads to the field, for keys */
  choose(label: string, option: string, shortcut?: string, typed?: string): Promise<void>
  /** Ticks a box, or chooses one of several. */
  tick(label: string): Promise<void>
  /** Chooses a file of this machine. */
  attach(label: string, file: FilePayload): Promise<void>
  /** Opens the row that has this text. */
  open(text: string): Promise<void>
}

type FilePayload = Parameters<FileChooser['setFiles']>[0]

/** Most keys that a row of a list costs, wherever it stands: the list can be filtered, and the row clicked. */
const ROW_KEYS = 2

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

  /** Both keys at once: they belong together for a second and a half, which a busy machine may take for one. */
  async place(_name: string, letter: string): Promise<void> {
    this.count++
    await Promise.all([this.#page.keyboard.press('g'), this.#key(letter)])
  }

  async search(text: string, isPasted = false): Promise<void> {
    await this.#key('/')
    if (isPasted) return void (await this.#page.keyboard.insertText(text))
    await this.#type(text)
  }

  async hit(text: string, verb?: string): Promise<void> {
    await this.#page.locator('#hits li[id]', { hasText: text }).first().waitFor()
    if (verb === undefined) return void (await this.#key('Enter'))
    await this.press(verb)
  }

  async press(name: string, shortcut?: string): Promise<void> {
    if (shortcut !== undefined) return void (await this.#key(shortcut))
    await this.#tabTo(name)
    await this.#key('Enter')
  }

  async submit(name: string): Promise<void> {
    await this.#page.getByRole('button', { name, exact: true }).last().waitFor()
    await this.#key('Control+Enter')
  }

  async fill(label: string, text: string, shortcut?: string): Promise<void> {
    if (shortcut !== undefined && (await this.#focused()) !== label) {
      await this.#key('Escape')
      await this.#key(shortcut)
    }
    await this.#tabTo(label)
    await this.#empty()
    await this.#type(text)
  }

  async paste(label: string, text: string): Promise<void> {
    await this.#tabTo(label)
    await this.#page.keyboard.insertText(text)
  }

  async choose(
    label: string,
    option: string,
    shortcut?: string,
    typed: string = option,
  ): Promise<void> {
    if (shortcut === undefined) await this.#tabTo(label)
    else await this.#key(shortcut)
    if ((await this.#page.locator('.choose input:focus').count()) === 0) return this.#select(option)
    await this.#type(typed)
    const hits = this.#page.locator('.choose:has(input:focus) .hits li[id]')
    await hits.first().filter({ hasText: option }).waitFor()
    await this.#key('Enter')
  }

  async tick(label: string): Promise<void> {
    const chosen = await this.#page.evaluate(chosenBeside, label)
    await this.#tabTo(chosen ?? label)
    if (chosen === undefined) return void (await this.#key('Space'))
    for (let i = 0; (await this.#focused()) !== label; i++) {
      if (i === 12) throw new Error(`arrows do not lead from ${chosen} to ${label}`)
      await this.#key('ArrowDown')
    }
  }

  async attach(label: string, file: FilePayload): Promise<void> {
    // Asked for early: the browser has to know that the next one is for the test.
    const chooser = this.#page.waitForEvent('filechooser')
    chooser.catch(() => undefined)
    await this.#tabTo(label)
    await this.#key('Enter')
    await (await chooser).setFiles(file)
  }

  async open(text: string): Promise<void> {
    await this.#page.waitForSelector(`tbody tr:has-text("${text}")`)
    const before = this.count
    for (let i = 0; i < 60; i++) {
      await this.#key('j')
      const row = await this.#page.textContent('tr:has(:focus)')
      if (!row?.includes(text)) continue
      await this.#arrived(text)
      this.count = Math.min(this.count, before + ROW_KEYS)
      return void (await this.#key('Enter'))
    }
    throw new Error(`no row has ${text}`)
  }

  /** Letters until the select has the option. */
  async #select(option: string): Promise<void> {
    const chosen = () =>
      this.#page.evaluate('document.activeElement.selectedOptions?.[0]?.textContent ?? ""')
    const begins = async () =>
      String(await chosen())
        .trim()
        .startsWith(option)
    for (const letter of option) {
      if (await begins()) return
      await this.#type(letter)
    }
    if (!(await begins())) throw new Error(`the letters of ${option} do not choose it`)
  }

  /** What stands in a field is chosen by a key, so that the text takes its place. */
  async #empty(): Promise<void> {
    if ((await this.#page.evaluate('document.activeElement.value')) !== '')
      await this.#key('Control+A')
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

  /**
   * Moves the focus by Tab or Shift+Tab, whichever is nearer, until the element with this name has it; at the beginning of a page
   * over its skip link, where that is shorter. Fails where no key leads to it.
   */
  async #tabTo(name: string): Promise<void> {
    const isThere = (focused: string) => focused === name || focused.startsWith(`${name} `)
    let focused = await this.#focused()
    if (isThere(focused)) return
    await expect.poll(async () => (await this.#page.evaluate(wayTo, name)) !== undefined).toBe(true)
    const way = (await this.#page.evaluate(wayTo, name))!
    if (way.skips) {
      focused = await this.#key('Tab')
      // After a dialog the next place may be in the screen already.
      if (focused.startsWith('Skip')) focused = await this.#key('Enter')
    }
    for (let i = 0; !isThere(focused); i++) {
      if (i === 120) throw new Error(`the keyboard does not lead to ${name}`)
      focused = await this.#key(way.isBack ? 'Shift+Tab' : 'Tab')
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

  async search(text: string, isPasted = false): Promise<void> {
    await this.#focus(this.#page.locator('.search input'))
    await this.#type(text, isPasted)
  }

  async hit(text: string, verb?: string): Promise<void> {
    const hit = this.#page.locator('#hits li[id]', { hasText: text }).first()
    await hit.waitFor()
    this.count++
    if (verb === undefined) return hit.click()
    await this.#page.locator('.hit-acts').getByRole('button', { name: verb }).click()
  }

  async press(name: string): Promise<void> {
    this.count++
    const within = await this.#front()
    const all = within.locator('button:visible, a:visible, summary:visible')
    await all.filter({ hasText: name }).first().click()
  }

  async submit(name: string): Promise<void> {
    this.count++
    const within = await this.#front()
    await within.getByRole('button', { name, exact: true }).last().click()
  }

  async fill(label: string, text: string): Promise<void> {
    const field = await this.#field(label)
    await this.#focus(field)
    // A triple click selects the same.
    await field.selectText()
    await this.#type(text, false)
  }

  async paste(label: string, text: string): Promise<void> {
    await this.#focus(await this.#field(label))
    await this.#type(text, true)
  }

  /** A select is one click; a field with hits one into it, and one on the hit. */
  async choose(label: string, option: string, _shortcut?: string, typed = option): Promise<void> {
    const field = await this.#field(label)
    if ((await field.getAttribute('role')) === 'combobox') {
      await this.#focus(field)
      await this.#type(typed, false)
      this.count++
      const hits = field.locator('xpath=..').locator('.hits li[id]', { hasText: option })
      return hits.first().click()
    }
    this.count++
    const texts = await field.locator('option').allTextContents()
    await field.selectOption({
      label: texts.find((text) => text.trim().startsWith(option))!.trim(),
    })
  }

  async tick(label: string): Promise<void> {
    this.count++
    await (await this.#front()).getByLabel(label).first().check()
  }

  async attach(label: string, file: FilePayload): Promise<void> {
    const field = await this.#field(label)
    const chooser = this.#page.waitForEvent('filechooser')
    this.count++
    await field.click()
    await (await chooser).setFiles(file)
  }

  async open(text: string): Promise<void> {
    this.count++
    await this.#page.locator(`tbody tr:has-text("${text}") .row-link`).first().click()
  }

  /** A click, where the field does not have the focus. */
  async #focus(field: Locator): Promise<void> {
    await field.waitFor()
    if (await field.evaluate((element) => element.matches(':focus'))) return
    this.count++
    await field.click()
  }

  async #type(text: string, isPasted: boolean): Promise<void> {
    if (isPasted) return this.#page.keyboard.insertText(text)
    this.letters += text.length
    await this.#page.keyboard.type(text)
  }

  async #field(label: string): Promise<Locator> {
    return (await this.#front()).getByLabel(label, { exact: true }).first()
  }

  /** The dialog, where one is open, and else the page. */
  async #front(): Promise<Locator> {
    const dialog = this.#page.locator('dialog')
    return (await dialog.count()) > 0 ? dialog.last() : this.#page.locator('body')
  }
}

/** Runs in the page: which way the Tab key is nearer to the element with this name; undefined where there is none. */
function wayTo(name: string): { readonly isBack: boolean; readonly skips: boolean } | undefined {
  const { document } = globalThis as unknown as Shown
  const dialogs = document.querySelectorAll('dialog')
  const root = dialogs[dialogs.length - 1] ?? document
  const all = [
    ...root.querySelectorAll(
      'a[href], button, input, select, textarea, summary, [tabindex="0"], audio[controls]',
    ),
  ].filter(
    (one) =>
      one.checkVisibility({ visibilityProperty: true }) &&
      !one.matches('[tabindex="-1"], :disabled'),
  )
  const nameOf = (element: FocusedElement) => {
    const label = element.labels?.[0]?.querySelector?.('span')?.textContent
    const whole = element.labels?.[0]?.textContent ?? ''
    const text = element.getAttribute('aria-label') || label || whole || element.textContent || ''
    return text.trim().replace(/\s+/g, ' ')
  }
  const at = all.indexOf(document.activeElement!)
  const places = all.flatMap((one, i) => {
    const own = nameOf(one)
    return own === name || own.startsWith(`${name} `) ? [i] : []
  })
  if (places.length === 0) return undefined
  const many = all.length
  const forward = Math.min(...places.map((i) => (i - at + many) % many || many))
  const back = Math.min(...places.map((i) => (at < 0 ? many - i : (at - i + many) % many || many)))
  const main = all.findIndex((one) => one.closest('main') !== null)
  const inMain = places.filter((i) => i >= main)
  const skips =
    at < 0 && dialogs.length === 0 && main > 0 && inMain.length > 0
      ? Math.min(...inMain) - main + 3
      : Infinity
  return { skips: skips < Math.min(forward, back), isBack: back < Math.min(forward, skips) }
}

/**
 * Runs in the page: which of several radio buttons Tab leads to, by the name of another one of them; undefined where it
 * is none.
 */
function chosenBeside(name: string): string | undefined {
  const { document } = globalThis as unknown as Shown
  const radios = [...document.querySelectorAll('input[type=radio]')]
  const nameOf = (one: FocusedElement) => (one.labels?.[0]?.textContent ?? '').trim()
  const wanted = radios.find((one) => nameOf(one) === name)
  const chosen = radios.find(
    (one) => one.matches(':checked') && one.getAttribute('name') === wanted?.getAttribute('name'),
  )
  return chosen && nameOf(chosen).replace(/\s+/g, ' ')
}

/** Runs in the page: what a reader calls the element with the focus, and why the focus is not seen. */
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
    querySelectorAll(selector: string): ArrayLike<FocusedElement> & Iterable<FocusedElement>
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
  matches(selector: string): boolean
  closest(selector: string): FocusedElement | null
  checkVisibility(options: { visibilityProperty: boolean }): boolean
  querySelectorAll(selector: string): ArrayLike<FocusedElement> & Iterable<FocusedElement>
  getBoundingClientRect(): { left: number; right: number; top: number; bottom: number }
}
