/** Calls of the gateway of a page, with its key. Programs beside this file print what the page shows. */
export async function ask(path: string, body?: object): Promise<void> {
  const headers = { Authorization: `Bearer ${process.env.API_KEY}` }
  const isForm = body instanceof FormData
  const response = await fetch(`${process.env.GATEWAY}${path}`, {
    method: body ? 'POST' : 'GET',
    headers: isForm ? headers : { ...headers, 'Content-Type': 'application/json' },
    ...(body && { body: isForm ? body : JSON.stringify(body) }),
  })
  process.stdout.write(`${await response.text()}\n`)
}
