/** The command `vendors`: the vendors that are known by name, and what each needs. */
import { keyVariableOf, VENDORS, vendorOf, type Vendor } from '../../providers/vendors.ts'
import { readEnvironment } from '../config/environment.ts'
import { readPriceFiles } from '../config/price-files.ts'
import type { Arguments } from './command.ts'
import { print, table } from './output.ts'

const HEADINGS = ['VENDOR', 'VARIABLE', 'SET', 'MODELS', 'MAKES ITS MODELS', 'OR ELSE']

/** Prints the vendors, with the variables that are set here, and how many models of each the price lists have. */
export async function listVendors(args: Arguments): Promise<void> {
  const folder = process.cwd()
  const env = await readEnvironment(process.env, [folder])
  const { models } = await readPriceFiles(folder, (path) => path)
  const counts = new Map<string, number>()
  for (const id of Object.keys(models)) {
    const vendor = id.slice(0, id.indexOf('/'))
    counts.set(vendor, (counts.get(vendor) ?? 0) + 1)
  }
  const rows = VENDORS.filter(({ name }) => vendorOf(name)).map((vendor) => ({
    name: vendor.name,
    variables: variablesOf(vendor),
    set: setVariableOf(vendor, env) ?? null,
    models: counts.get(vendor.name) ?? 0,
    local: vendor.local ?? false,
    maker: vendor.maker ?? false,
  }))
  print(args, rows, () =>
    table(
      HEADINGS,
      rows.map((row) => [
        row.name,
        row.variables[0],
        row.set === null ? 'no' : 'yes',
        row.local ? 'as its server says' : row.models,
        row.maker ? 'yes' : 'no',
        row.variables.slice(1).join(', '),
      ]),
      ['OR ELSE', 'MAKES ITS MODELS'],
    ),
  )
}

/** The variables of the key, or of the address where a server of the operator's own needs no key. */
function variablesOf({ variables, address = [] }: Vendor): readonly string[] {
  return variables.length > 0 ? variables : address
}

function setVariableOf(
  vendor: Vendor,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  return keyVariableOf(vendor, env) ?? vendor.address?.find((name) => env[name])
}
