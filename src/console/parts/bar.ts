/** Drawings of the size of a table row: a share, and a row of values. SVG, because the page allows no inline styles. */
import { html } from '../html.ts'

const WIDTH = 96
const HEIGHT = 24

/** A share from 0 to 1. The figure beside it has the same value. */
export function Bar({
  share,
  tone = 'accent',
  label,
}: {
  readonly share: number
  readonly tone?: 'accent' | 'warn' | 'bad' | 'ok'
  readonly label: string
}) {
  const width = Math.max(share > 0 ? 1 : 0, Math.round(Math.min(1, share) * 100))
  return html`<svg
    class=${`bar ${tone}`}
    viewBox="0 0 100 8"
    preserveAspectRatio="none"
    role="img"
    aria-label=${label}
  >
    <rect class="track" width="100" height="8" />
    <rect class="fill" width=${width} height="8" />
  </svg>`
}

/** The course of a figure: one stroke, the last point marked, no axes. */
export function Spark({
  values,
  label,
}: {
  readonly values: readonly (number | null)[]
  readonly label: string
}) {
  const numbers = values.filter((value) => value !== null)
  // One value is no course of anything.
  if (numbers.length < 2) return null
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)]
  const span = most - least || 1
  const x = (index: number) => 2 + (index * (WIDTH - 6)) / Math.max(1, values.length - 1)
  const y = (value: number) => HEIGHT - 3 - ((value - least) / span) * (HEIGHT - 6)
  let isUp = false
  const path = values
    .map((value, index) => {
      if (value === null) {
        isUp = false
        return ''
      }
      const step = `${isUp ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`
      isUp = true
      return step
    })
    .join('')
  const last = values.findLastIndex((value) => value !== null)
  const summary = `${label}: first ${numbers[0]}, last ${numbers.at(-1)}, least ${least}, most ${most}`
  return html`<svg
    class="spark"
    viewBox=${`0 0 ${WIDTH} ${HEIGHT}`}
    width=${WIDTH}
    height=${HEIGHT}
    role="img"
    aria-label=${summary}
  >
    <path d=${path} />
    <circle cx=${x(last).toFixed(1)} cy=${y(values[last]!).toFixed(1)} r="2" />
  </svg>`
}
