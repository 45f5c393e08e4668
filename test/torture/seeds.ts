/** The kits of what is built in and of the examples with many seeds: none may report anything. */
import {
  BUILT_IN,
  EXAMPLE_FOLDERS,
  exampleKit,
  PROVIDERS,
  providerKit,
} from '../conformance/built-in.ts'

const SEEDS = 20

const kits = {
  ...BUILT_IN,
  ...Object.fromEntries(PROVIDERS.map((one) => [one.name, providerKit(one)])),
  ...Object.fromEntries(EXAMPLE_FOLDERS.map((folder) => [folder, exampleKit(folder)])),
}
let [runs, checked] = [0, 0]
for (const [name, kit] of Object.entries(kits)) {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { failed, checks } = await kit({ seed })
    runs++
    checked += checks.length
    for (const one of failed) {
      process.exitCode = 1
      process.stdout.write(
        `${name}, seed ${seed}: ${one.name}, ${one.on}: ${one.notes.join('; ')}\n`,
      )
    }
  }
}
process.stdout.write(`${Object.keys(kits).length} plugins, ${runs} runs, ${checked} checks\n`)
