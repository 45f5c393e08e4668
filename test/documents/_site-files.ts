/** What every page of the site loads. */

export const STYLE = `:root { color-scheme: light dark; --line: light-dark(#ddd, #444); --code: light-dark(#f5f5f5, #222); }
body { margin: 0 auto; max-width: 80rem; display: grid; grid-template-columns: 15rem minmax(0, 1fr); font: 16px/1.6 system-ui, sans-serif; }
nav { padding: 1rem; border-right: 1px solid var(--line); font-size: 0.9rem; }
nav a { display: block; } nav h2 { margin: 1rem 0 0; font-size: 0.8rem; } nav input { width: 100%; }
nav [aria-current] { font-weight: bold; }
main { padding: 1rem 2rem; min-width: 0; }
pre { overflow-x: auto; padding: 0.8rem; } pre, code { background: var(--code); font-size: 0.9em; }
table { display: block; overflow-x: auto; border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; }
@media (max-width: 50rem) { body { display: block; } nav { border: 0; } }
`

/** Search over titles and headings. */
export const SCRIPT = `const { up } = document.currentScript.dataset
const found = document.querySelector('#found')
let pages
document.querySelector('nav input').addEventListener('input', async ({ target }) => {
  pages ??= await (await fetch(up + 'pages.json')).json()
  const words = target.value.toLowerCase().split(/\\s+/).filter(Boolean)
  const hits = words.length === 0 ? [] : pages.filter(({ title, headings }) => {
    const text = [title, ...headings].join(' ').toLowerCase()
    return words.every((word) => text.includes(word))
  })
  found.replaceChildren(...hits.slice(0, 20).map(({ path, title }) => {
    const link = document.createElement('a')
    link.href = up + path
    link.textContent = title
    return link
  }))
})
`
