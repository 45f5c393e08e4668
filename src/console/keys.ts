/** The keyboard: single letters and `g` with a letter, but never while the reader types. */
import { useEffect, useRef } from 'preact/hooks'
import { preferences } from './state.ts'

interface Shortcut {
  readonly keys: string
  readonly does: string
}

export const SHORTCUTS: readonly Shortcut[] = [
  { keys: '/ or Ctrl+K', does: 'search' },
  {
    keys: 'g then o u r a k m g p s',
    does: 'overview, usage, requests, accounts, keys, models, guard, playground, settings',
  },
  { keys: 'j k or arrows, Enter, Esc', does: 'row, open, close' },
  { keys: 'Esc in a field', does: 'leave it: letters are shortcuts again' },
  { keys: '[ ]', does: 'previous, next row while a sheet is open' },
  { keys: 'f, r, !, l, x', does: 'filters, range, failed calls only, live, CSV of what is shown' },
  { keys: 'n, e, c', does: 'new (credits on an account), edit, copy the id of the focused thing' },
  { keys: '1 to 9', does: 'the tabs of an account' },
  { keys: 'i', does: 'invite to the team that is open' },
  { keys: '. z', does: 'what can be done with the focused row, undo' },
  { keys: 'b', does: 'what usage is grouped by' },
  { keys: 'n, t in a policy', does: 'add a pattern, try a text' },
  { keys: 'Ctrl+Enter', does: 'send, save' },
  { keys: 'h', does: 'the page of the manual about this screen' },
  { keys: '?', does: 'this list' },
]

const bindings = new Map<string, (event: KeyboardEvent) => void>()
let pressedG = -Infinity
/** Time between `g` and its letter, from press to press: a page that is busy may handle them much later. */
const SEQUENCE_MS = 1500

/** Binds keys while the component is there, such as `j`, `g o`, `ctrl+enter`, `?`, `ArrowDown`. The last one wins. */
export function useKeys(keys: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  const latest = useRef(keys)
  latest.current = keys
  const names = Object.keys(keys).join(' , ')
  useEffect(() => {
    const own = Object.keys(latest.current).map((name) => {
      const before = bindings.get(name)
      const handler = (event: KeyboardEvent) => latest.current[name]?.(event)
      bindings.set(name, handler)
      return { name, before, handler }
    })
    return () => {
      for (const { name, before, handler } of own) {
        if (bindings.get(name) !== handler) continue
        if (before) bindings.set(name, before)
        else bindings.delete(name)
      }
    }
  }, [names])
}

/** Listens to the keyboard. Called once. */
export function listenToKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return
    const name = nameOf(event)
    const handler = bindings.get(name)
    if (!handler) return name === 'ctrl+enter' ? submit(event) : leaveField(event)
    event.preventDefault()
    handler(event)
  })
}

/** Sends the form that has the focus, or the only one of the open dialog or of the screen. */
function submit(event: KeyboardEvent): void {
  const front = [...document.querySelectorAll('dialog')].at(-1) ?? document.querySelector('main')
  const forms = front?.querySelectorAll('form') ?? []
  const form = (event.target as HTMLElement).closest('form') ?? (forms.length === 1 && forms[0])
  if (!form) return
  // A button that has the focus is not pressed as well.
  event.preventDefault()
  form.requestSubmit()
}

/** Escape leaves a field; in a dialog it closes that. */
function leaveField({ key, target }: KeyboardEvent): void {
  if (key === 'Escape' && isTyping(target) && !(target as HTMLElement).closest('dialog'))
    (target as HTMLElement).blur()
}

function nameOf(event: KeyboardEvent): string {
  const { key, timeStamp } = event
  if (event.ctrlKey || event.metaKey) return `ctrl+${key.toLowerCase()}`
  if (event.altKey || isTyping(event.target)) return ''
  if (key.length > 1) return key
  if (!preferences.value.letters) return ''
  const isSecond = timeStamp - pressedG < SEQUENCE_MS
  pressedG = key === 'g' && !isSecond ? timeStamp : -Infinity
  return isSecond ? `g ${key}` : key
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target instanceof HTMLInputElement) {
    return !['checkbox', 'radio', 'button', 'submit', 'range'].includes(target.type)
  }
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
}
