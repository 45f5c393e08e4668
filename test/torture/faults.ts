/** Plugins with one fault each: the kits have to find 95 of 100 by a check that is about the fault; and nothing in unusual right ones. */
import { GUARDS } from '../testing/faults/guards.ts'
import { SEARCHES, SINKS } from '../testing/faults/others.ts'
import { failuresOf, isCaught } from '../testing/faults/play.ts'
import { PROVIDERS } from '../testing/faults/providers.ts'
import { UNUSUAL } from '../testing/faults/unusual.ts'

const FAMILIES = {
  providers: PROVIDERS,
  guards: GUARDS,
  searches: SEARCHES,
  sinks: SINKS,
  unusual: UNUSUAL,
}
const MIN_SHARE = 0.95
/** A short run plays one of so many plugins. */
const FEW = 4
const isShort = process.argv[2] === '--short'
/** Part of the name of a family, and of a plugin. */
const [onlyFamily = '', only = ''] = isShort ? [] : process.argv.slice(2)

/** Faulty plugins of all families that were played, and those whose fault was found. */
const faulty = { played: 0, found: 0 }

for (const [family, all] of Object.entries(FAMILIES)) {
  if (!family.includes(onlyFamily)) continue
  const named = all.filter(({ name }) => name.includes(only))
  const variants = isShort ? named.filter((_, i) => i % FEW === 0) : named
  let right = 0
  for (const variant of variants) {
    const { name, base, checks } = variant
    const failures = await failuresOf(variant)
    if (checks.length === 0 ? failures.length === 0 : isCaught(variant, failures)) right++
    else
      process.stdout.write(
        `${family}, ${base}: "${name}" ${checks.length === 0 ? 'is right' : `is not found by ${checks.join(' or ')}`}; failed: ${failures.join(' / ') || 'nothing'}\n`,
      )
  }
  process.stdout.write(`${family}: ${right} of ${variants.length}\n`)
  if (family !== 'unusual') {
    faulty.played += variants.length
    faulty.found += right
  } else if (right < variants.length) process.exitCode = 1
}
process.stdout.write(`faults: ${faulty.found} of ${faulty.played} found\n`)
if (faulty.found < faulty.played * MIN_SHARE) process.exitCode = 1
