/** Finds email addresses, telephone numbers and network addresses. */
import { isIPv6 } from 'node:net'
import { isUniform } from './national.ts'
import { expression, matchesOf } from '../text/slices.ts'
import { wholeWords } from './numbers.ts'

/** A part of a text. */
export interface Range {
  readonly start: number
  readonly end: number
}

const LOCAL = expression(/[\p{L}\p{M}\p{N}._%+\-'&~#*"]/u)
const DOMAIN = expression(/[\p{L}\p{M}\p{N}.-]/u)
const TOP = expression(/^(?:\p{L}[\p{L}\p{M}]{1,23}|xn--[a-z0-9-]{2,59})$/iu)
const FILE_ENDINGS = /^(?:png|jpe?g|gif|webp|svg|css|js|ts|json|html?|md|txt|pdf|zip|gz)$/i
const BESIDE = expression(/\.[a-z]{2,24}([^a-z\d.-][^.]*)$/iu)
const OBFUSCATED = expression(
  /[\p{L}\p{N}._%+-]{1,64}(?:\s*[([<]\s*at\s*[)\]>]\s*[\p{L}\p{N}-]{1,63}(?:\s*[([<]\s*dot\s*[)\]>]\s*|\s+dot\s+|\.)|\s+at\s+[\p{L}\p{N}-]{1,63}(?:\s*[([<]\s*dot\s*[)\]>]\s*|\s+dot\s+))(?:[\p{L}\p{N}-]{1,63}(?:\s*[([<]\s*dot\s*[)\]>]\s*|\s+dot\s+|\.)){0,3}\p{L}{2,24}(?![\p{L}\p{N}])/giu,
)

const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]$/

/**
 * Email addresses around each `@` of a text (RFC 5322 without comments, RFC 6531).
 * @param before the text before
 */
export function findEmails(text: string, before: string): Range[] {
  const ranges: Range[] = []
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    let start = at
    while (start > 0 && at - start < 64 && LOCAL.test(text[start - 1]!)) start--
    // A quote before the address belongs to it only as a pair.
    while (start < at && /["'*#&~.]/.test(text[start]!)) start++
    if (text[at - 1] === '"' && text[start - 1] === '"') start--
    let end = at + 1
    while (end < text.length && end - at < 254 && DOMAIN.test(text[end]!)) end++
    while (end > at + 1 && /[.-]/.test(text[end - 1]!)) end--
    // Words that follow without a space are no part of it.
    end -= BESIDE.exec(text.slice(at + 1, end))?.[1]!.length ?? 0
    const local = text.slice(start, at)
    // A name in a script without spaces gives only its `@` to the stretch.
    const isNamed = local !== '' || (start === 0 && UNSPACED.test(before))
    if (!isNamed || local === 'git' || /:\/\/[^\s/]*$/.test(text.slice(0, start))) continue
    if (isDomain(text.slice(at + 1, end))) ranges.push({ start, end })
  }
  return ranges
}

/** Email addresses in words: `name (at) example [dot] org`. */
export function findSpelledEmails(text: string): Range[] {
  return Array.from(matchesOf(text, OBFUSCATED), ({ index, 0: { length } }) => ({
    start: index,
    end: index + length,
  }))
}

function isDomain(domain: string): boolean {
  const labels = domain.split('.')
  const last = labels.at(-1)!
  if (labels.length < 2 || labels.some((label) => label === '' || label.length > 63)) return false
  if (!TOP.test(last)) return false
  // `logo@2x.png` is a file name, `left-pad@1.3.0-beta.rc` a package version.
  return !(FILE_ENDINGS.test(last) && /^\d/.test(domain)) && !/^\d+\.\d+/.test(domain)
}

const OF_MACHINES = wholeWords(
  'ip|ips|ipv4|ipv6|address|addr|host|server|client|from|ping|connect|connected|connection|login|logged in|dns|port|subnet|' +
    'gateway|adresse|dirección|indirizzo|remote|peer|visitor|user at',
)
const NO_MACHINE = expression(
  /(?:\bv|versi\p{L}*|wersj\p{L}*|верси\p{L}*|版本|バージョン|버전|إصدار|الإصدار|संस्करण|वर्ज़न|वर्जन|versão|release|section|sec\.|chapter|clause|paragraph|§|build|firmware|rev\.?|revision|kernel|driver|drivers|treiber|pilote|abschnitt|kapitel|figure|table|article|chrome|chromium|edge|upgrade|update|patch|hotfix|assembly|package|sdk|bios|agent|plugin|app)(?:\s+(?:is|was|to|from|number|no\.?|nr\.?|of|on|at|auf|ist|von|est|es|è|é|до|на|la|le|the|v))*\s*[:=(]?\s*$/iu,
)

const IPV4 = expression(
  /(?<![\p{L}\p{N}._-])\d{1,3}(?:\.\d{1,3}){3}(?![\p{L}\p{N}_]|[.-][\p{L}\p{N}]|\/\d)/gu,
)
const COLONS = expression(/(?<![\p{L}\p{N}_.-])[\dA-Fa-f:]*:[\dA-Fa-f:.-]+/gu)
const HYPHENS = expression(/(?<![\p{L}\p{N}_.-])[\dA-F]{2}(?:-[\dA-F]{2}){5}(?![\p{L}\p{N}_-])/giu)

/**
 * Public network addresses. Loopback and private networks are ignored.
 * @param before the text before
 */
export function findMachines(
  text: string,
  before: string,
): (Range & { label: 'IP_ADDRESS' | 'MAC_ADDRESS' })[] {
  const addresses: (Range & { label: 'IP_ADDRESS' | 'MAC_ADDRESS' })[] = []
  for (const { 0: address, index } of matchesOf(text, IPV4)) {
    const octets = address.split('.').map(Number)
    const context = (before + text.slice(0, index)).slice(-48)
    if (octets.some((octet) => octet > 255) || isLocal(octets) || NO_MACHINE.test(context)) continue
    if (isResolver(address)) continue
    // Version numbers consist of small numbers.
    if (Math.max(...octets) < 32 && !OF_MACHINES.test(context)) continue
    addresses.push({ label: 'IP_ADDRESS', start: index, end: index + address.length })
  }
  for (const { 0: match, index } of matchesOf(text, COLONS)) {
    const address = match.replace(/[:.-]+$/, '')
    const range = { start: index, end: index + address.length }
    if (/^[\p{L}\p{N}_]/u.test(text.slice(range.end))) continue
    if (/^[\dA-Fa-f]{2}(?::[\dA-Fa-f]{2}){5}$/.test(address)) {
      if (!isUniform(address.replaceAll(':', '')) && /[a-f]|00/i.test(address)) {
        addresses.push({ label: 'MAC_ADDRESS', ...range })
      }
    } else if (isIPv6(address) && /\d/.test(address) && address.split(':').length > 3) {
      if (!/^(?:::|0*:|f[cd]|fe[89ab])/i.test(address) && !isResolver(address))
        addresses.push({ label: 'IP_ADDRESS', ...range })
    }
  }
  for (const { 0: address, index } of matchesOf(text, HYPHENS)) {
    if (!/[a-f]/i.test(address)) continue
    addresses.push({ label: 'MAC_ADDRESS', start: index, end: index + address.length })
  }
  return addresses
}

function isLocal([first, second, , last]: readonly number[]): boolean {
  if (first === 0 || first === 10 || first === 127 || first! >= 224 || last === 0) return true
  if (first === 172) return second! >= 16 && second! < 32
  if (first === 192) return second === 168
  return first === 169 ? second === 254 : first === 100 && second! >= 64 && second! < 128
}

/** Lengths of national numbers by calling code (ITU E.164 and national numbering plans). */
const PLANS = new Map(
  [
    [7, 10, '44 84 230 243 254 263 267 353 372 960'],
    [10, 10, '1 7 52 58 225 229'],
    [8, 10, '20 60 378 506 850 855 856 964 970 976'],
    [6, 10, '27 48 53 64 95 234 685 880'],
    [10, 12, '30'],
    [6, 11, '31 65 352 375 593 595 852 977'],
    [8, 9, '32 36 51 213 224 233 237 250 258 264 268 377 382 387 591 962 963'],
    [
      9,
      9,
      '33 34 93 94 211 212 218 221 240 242 244 249 251 255 256 260 261 262 351 590 594 596 992 994 995 998',
    ],
    [6, 12, '39 46 61 86 358 359 381 971 972'],
    [6, 9, '40 47 220 231 245 252 265 354 355 376 385 386 421 423 508 681 686 689 967 968'],
    [9, 12, '41 420'],
    [8, 13, '43 66 90 91 598'],
    [
      8,
      8,
      '45 216 222 223 226 227 228 232 235 236 253 257 266 350 356 357 370 371 373 374 389 505 509 973 993',
    ],
    [6, 13, '49 63 82'],
    [8, 11, '54 55 56 57 502 504'],
    [7, 13, '62'],
    [8, 12, '81 92 98 383'],
    [
      7,
      8,
      '238 239 241 246 248 269 291 297 592 599 670 673 674 675 676 677 678 680 691 692 853 961 965 975',
    ],
    [5, 7, '247 290 298 299 500 597 672 682 683 687 688 690'],
    [9, 10, '380 966 996'],
    [7, 11, '501 503 507 679 886 974'],
  ].flatMap(([least, most, codes]) =>
    (codes as string).split(' ').map((code) => [code, [least, most] as [number, number]] as const),
  ),
)

/** Italy and other countries whose numbers keep the leading zero in calls from abroad. */
const KEEPS_ZERO = /^(?:39|225|229|241|242|378)/

/** Whether digits after a `+` are a calling code and a number of a valid length. */
export function isInternational(digits: string): boolean {
  if (digits.length < 8 || digits.length > 15) return false
  for (let length = 1; length <= 3; length++) {
    const range = PLANS.get(digits.slice(0, length))
    if (!range) continue
    const national = digits.slice(length)
    if (national.length < range[0] || national.length > range[1] || isUniform(national))
      return false
    if (digits[0] === '1') return /^[2-9]\d\d[2-9]/.test(national)
    return national[0] !== '0' || KEEPS_ZERO.test(digits)
  }
  return false
}

/** Ten digits in pairs, as in France. */
const PAIRS = /^0[1-9](?:([ ./-])\d\d)(?:\1\d\d){3}$/

function isDated(written: string): boolean {
  return DATED.test(written) && !PAIRS.test(written)
}

const INDIAN_MOBILE = /^0?[6-9]\d{4}[ -]\d{5}$/

/** Whether it is written as mobile numbers of India are, in two groups. */
export function isIndianMobile(written: string): boolean {
  return INDIAN_MOBILE.test(written)
}

const NATIONAL = [
  // North America.
  /^(?:1[ .-])?(?:\([2-9]\d\d\)|[2-9]\d\d)[ .-]?[ .-][2-9]\d\d[ .-]\d{4}$|^\([2-9]\d\d\)[2-9]\d\d[ .-]\d{4}$/,
  // Numbers with the prefix that most countries use before a number.
  /^(?:\(0[1-9]\d{0,3}\)|0[1-9]\d{0,3})[ ./-]{0,2}\d{2,5}(?:[ .-]\d{2,5}){1,4}$/,
  // India.
  INDIAN_MOBILE,
  PAIRS,
  // China, Brazil.
  /^1[3-9]\d[ -]\d{4}[ -]\d{4}$/,
  /^\([1-9]\d\) ?9?\d{4}-\d{4}$/,
]
const DATED = expression(
  /(?<!\d)\d{1,2}([./-])\d{1,2}\1(?:\d{4}|\d{2})(?!\d)|(?<!\d)(?:19|20)\d\d([./-])\d{1,2}\2\d{1,2}(?!\d)/,
)

/** Whether a number of at least three groups has the form of a telephone number of some country. */
export function isNational(written: string, digits: string): boolean {
  return (
    digits.length > 8 &&
    digits.length < 12 &&
    !isDated(written) &&
    NATIONAL.some((shape) => shape.test(written))
  )
}

const OF_PHONES = wholeWords(
  'phone|phones|telephone|tel|mobile|cell|cellphone|fax|whatsapp|telegram|call me|call us|call him|call her|call them|call at|' +
    'reach me|reach him|reach her|text me|dial|hotline|sms|landline|' +
    'telefon|telefonnummer|handy|handynummer|mobil|mobilnummer|rufnummer|anrufen|festnetz|' +
    'téléphone|portable|tél|numéro de téléphone|appelez|teléfono|móvil|celular|llámame|' +
    'telefone|telemóvel|cellulare|telefono|telefoon|telefoonnummer|mobiel|gsm|telefonu|komórka|numer telefonu|' +
    'телефон|тел|мобильный|phone no|contact number|' +
    '电话|手机|電話|携帯|手機|전화|휴대폰|โทร|โทรศัพท์|फ़ोन|फोन|मोबाइल|मोबाईल|मोबाइल नंबर|नंबर|व्हाट्सएप|व्हाट्सऐप|' +
    'هاتف|هاتفي|هاتفه|هاتفها|الهاتف|جوال|جوالي|جوالها|جواله|رقمي|رقمه|رقمها|موبايل|واتساب|تلفون|טלפון|נייד|' +
    'my number|his number|her number|their number|meine nummer|seine nummer|ihre nummer|handynr|tel\\.-nr|mon numéro|son numéro|mi número|su número|' +
    'meu número|seu número|mio numero|suo numero|mijn nummer|zijn nummer|haar nummer|mój numer|jego numer|jej numer|номер телефона|' +
    'мой номер|его номер|её номер|ее номер|моб|сотовый|номеру|号码|番号は|번호는|watsapp|wsp|zap',
)
/** A verb of calling, and up to four short words between it and the number. */
const CALLS = expression(
  /(?<![\p{L}\p{N}])(?:call|ring|phone|text|dial|reach|ruf\p{L}*|anruf\p{L}*|erreich\p{L}*|meld\p{L}*|appel\p{L}*|joindre|joign\p{L}*|contact\p{L}*|संपर्क|सम्पर्क|rappel\p{L}*|llám\p{L}*|llam\p{L}*|ligue|liga\p{L}*|ligar|telefone|chiam\p{L}*|telefona\p{L}*|bel|bellen|bereik\p{L}*|zadzwo\p{L}*|dzwo\p{L}*|позвон\p{L}*|звон\p{L}*|набер\p{L}*|اتصل\p{L}*|كلمن\p{L}*|كلم\p{L}*|कॉल|फ़?ोन)(?:[\s-]+[\p{L}\p{M}.'’]{1,12}){0,4}\s*[:,]?\s*\(?$/iu,
)
/** A verb of sending messages, and up to five short words between it and the number. */
const WRITES = expression(
  /(?<![\p{L}\p{N}])(?:app|appje|appen|apps|whatsapp\p{L}*|sms\p{L}*|simse|text|message|messag\p{L}*|(?:stuur|stur\p{L}*|send\p{L}*|schick\p{L}*|schreib\p{L}*|schrijf|écri[st]|écrivez|envoie|envoyez|escríb\p{L}*|escreva|escreve|mánd\p{L}*|mand[ae]|mandami|scriv\p{L}*|napisz|wyślij|напиши|напишите|пиши|пишите|скинь|write|drop)(?:[\s-]+[\p{L}\p{M}.'’]{1,12})?)(?:[\s-]+[\p{L}\p{M}.'’]{1,12}){0,5}\s*[:,]?\s*\(?$/iu,
)
/** A label that says "number" and nothing else. */
const BARE_LABEL = expression(
  /(?:^|[.;,!?¡¿\n(–-])\s*(?:(?:the|die|de|het|le|la|il|el|o|a)\s)?(?:number|nummer|nr|numéro|número|numero|numer|номер|番号|번호|号码|號碼|नंबर|رقم|الرقم)\s?[:：=]\s*\(?$/iu,
)
/** A national number with the prefix of a mobile network: Germany, Austria, Switzerland, the Netherlands, Belgium, France, the United Kingdom, Ireland, Australia, Japan, Korea. */
const MOBILE = /^0(?:1[5-7]\d{8,9}|6\d{8,11}|7\d{8,9}|4\d{8}|8\d{8}|[789]0\d{8}|10\d{8})$/

/** Digits of a national number, as one would dial it. */
const DIALLED = /^(?:0\d{8,11}|[1-9]\d{8,10})$/
const LABELLED = /(?:[:#.=]|number|no\.?|nummer|is|at|on|:)\s*\(?$/i

/** Whether the words before a number announce a telephone number. */
export function speaksOfPhones(before: string): boolean {
  return OF_PHONES.test(before) || CALLS.test(before)
}

/** Whether it is a mobile number that a verb of messaging or the mere label "number" stands before. */
export function isMobile(written: string, digits: string, before: string): boolean {
  if (!MOBILE.test(digits) || isUniform(digits.slice(2)) || isDated(written)) return false
  return WRITES.test(before) || BARE_LABEL.test(before)
}

/** Whether a number counts as a telephone number because of the words before it. */
export function isCalled(written: string, digits: string, before: string): boolean {
  if (digits.length < 7 || digits.length > 15 || isUniform(digits) || isDated(written)) return false
  // Numbers without separators are common, so the word must be adjacent or the number long.
  return (
    written !== digits ||
    (OF_PHONES.test(before.slice(-18)) && (digits.length > 8 || LABELLED.test(before))) ||
    (CALLS.test(before) && DIALLED.test(digits))
  )
}

const DIGIT_WORDS = new Set(
  (
    'zero oh o one two three four five six seven eight nine double triple ' +
    'null eins zwei zwo drei vier fünf sechs sieben acht neun ' +
    'zéro un deux trois quatre cinq sept huit neuf ' +
    'cero uno dos tres cuatro cinco seis siete ocho nueve ' +
    'due tre quattro cinque sei sette otto nove um dois três quatro meia sete oito ' +
    'nul een twee vijf zes zeven negen'
  ).split(' '),
)
const WORD = expression(/[\p{L}\p{N}]+/gu)
const MAX_DIGIT_WORD = 7
/** Fewest spelled digits of a telephone number. */
export const SPELLED_DIGITS = 9

/** Whether a word names a digit in a supported language. */
export function isDigitWord(word: string): boolean {
  return word.length <= MAX_DIGIT_WORD && DIGIT_WORDS.has(word.toLowerCase())
}

/** Telephone numbers in words. The text consists of such words and their surroundings only. */
export function findSpelledPhones(text: string, before: string): Range[] {
  const ranges: Range[] = []
  let run: Range | undefined
  let count = 0
  for (const { 0: word, index } of matchesOf(text, WORD)) {
    if (isDigitWord(word)) {
      run = { start: run?.start ?? index, end: index + word.length }
      count++
    } else {
      if (run && count >= SPELLED_DIGITS) ranges.push(run)
      run = undefined
      count = 0
    }
  }
  if (run && count >= SPELLED_DIGITS) ranges.push(run)
  return ranges.filter(({ start }) => OF_PHONES.test((before + text.slice(0, start)).slice(-48)))
}

// Addresses and numbers of roles and organizations: they belong to no person.

/** Names of roles before the `@`, alone or with one another: `customer-service`, `sales.eu`. */
const ROLES = new Set(
  (
    'abuse accessibility account accounting accounts admin admins administration administrator admissions ads advertising alerts all ap appointments apps archive ar bookings booking billing bot building ' +
    'bugs business careers care cases central ceo cfo claims clinic clients club communications community complaints compliance contact contactus content contracts ' +
    'council cs csr customer customercare customers customerservice customersupport data dataprotection delivery deploy desk dev devops developer developers digital ' +
    'director dispatch dns docs donate donations donotreply dpo dsar ecommerce editor editorial education email emergency energy engineering enquiries enquiry ethics events facilities ' +
    'faq faculty feedback finance fleet foundation founders frontdesk fraud gdpr general get group groups guest hello help helpdesk helpline hi hiring hosting hostmaster hotel house housing ' +
    'hq hr info information inbox incident innovation inquiries inquiry insurance international internships investor investors invoice invoices invoicing it itsupport ' +
    'job jobs kitchen lab lead legal letters library list lists listserv local logistics mail mailbox mailer maintainers maintenance manager management marketing media ' +
    'member members membership museum national newsletter newsletters news newsroom no noc noreply reply donot office offices online operations ops orders order org parking ' +
    'partner partners partnerships parts payment payments payroll permits personnel post postmaster pr press principal privacy procurement product products program projects ' +
    'properties public publicity purchasing quality questions quotes reception records recruiting recruitment recycling refund refunds region register registrar registration registry relations ' +
    'rental rentals repairs report reporting reports request requests reservation reservations residents responsible restaurant returns root rsvp safety sales school ' +
    'secretary secretariat security server service servicedesk services shipping shop site sos sponsors sponsorship staff status store studio subscribe subscriptions ' +
    'suggestions supplier suppliers support swim sysadmin system systems tax team teams tech technical techsupport test tickets tours trade training transport travel treasurer trust unsubscribe updates us user ' +
    'vendor vendors venue volunteer volunteers warehouse warranty web webmaster website welcome wholesale www your ' +
    'abteilung anfrage anfragen anmeldung auskunft bewerbung bewerbungen bestellung bestellungen buchhaltung buero büro bürgerbüro buergerbuero datenschutz einkauf empfang fragen gemeinde geschaeftsstelle hausverwaltung ' +
    'impressum karriere kontakt kunden kundendienst kundenservice kundenbetreuung lieferung personal poststelle praxis presse rechnung rechnungen rechnungswesen redaktion reservierung rezeption rathaus schule sekretariat ' +
    'stadt stadtwerke technik tickets verein vertrieb verkauf versand vorstand werkstatt widerruf zentrale ' +
    'accueil achat achats adherents aide bonjour billetterie boutique candidature clientele client comptabilite commande commandes commercial communication contactez courrier demandes devis dpd emploi facturation formation mairie ' +
    'informations juridique presse rectorat recrutement redaction reclamation reclamations reservations rh sav secretariat serviceclient technique ventes vente location ' +
    'administracion atencion alcaldia ayuntamiento biblioteca cliente afiliacion alquiler area asesoria cambios clinica cobros comite comunidad departamento devoluciones direccion dpto equipo farmacia garantias gerencia pagos peticiones presidencia quejas rectorado servicio servicios solicitudes tecnico alumnos archivo becas bienestar bomberos ciudadania ciudadano ciudadanos buzon canal central cine colaboradores consumo contratacion coordinacion defensor delegacion gestion hacienda inscripciones mantenimiento padres proveedores sede sucursal teatro tesoreria cita citaprevia citas colegio cultura deportes didactica educacion empresa entradas eventos grupos habitantes licencias museo obras padron participacion policia registro socios taller talleres tramites transparencia urgencias vivienda voluntariado turismo visitas atencionalcliente ayuda clientes comercial compras comunicacion consultas contabilidad contacto contactenos cuentas datos empleo envios facturacion facturas hola incidencias ' +
    'academia adopciones albergue autobuses bodega camping catering censo colegiados cursos delegaciones domicilio donaciones equipaje farmacia garantia granja hoteles idiomas investigacion juzgado laboratorio mesa nominas notaria objetosperdidos pacientes pago parroquia recogida reparaciones residencia restaurante salud trenes vecinos veterinario voluntarios vuelos ' +
    'apotheke bibliothek buecherei ehrenamt fundbuero kurse mitglieder seminare spenden adhesion benevoles bibliotheque cantine dons ecole etatcivil garage musee objetstrouves pharmacie stages urbanisme anagrafe corsi donazioni iscrizioni oggettismarriti scuola tributi volontari achados doacoes escola matriculas museu apotheek bibliotheek burgerzaken cursussen donaties leden vrijwilligers apteka biblioteka darowizny kursy muzeum wolontariat ' +
    'informacion informatica lopd matricula oficina pedidos prensa privacidad protecciondedatos reclamaciones recepcion recursoshumanos reservas rrhh secretaria seguridad soporte taquilla tienda ventas sugerencias ' +
    'ajuda atendimento cadastro cobranca comunicacao contabilidade contato duvidas faturamento financeiro geral imprensa loja ouvidoria pedidos privacidade rh sac suporte vendas apoio encomendas reclamacoes ' +
    'acquisti amministrazione direzione servizi servizio servico servicos dienst dzial direcao direction assistenza biglietteria clienti comunicazione contatti fatture fatturazione informazioni lavoraconnoi logistica magazzino ordini prenotazioni protocollo reclami redazione segreteria stampa ufficio ufficiostampa vendite ' +
    'aanmelden administratie afdeling bestellen bestelling boekhouding facturen facturatie gemeente inkoop inschrijven klachten klantenservice klantendienst magazijn pers receptie reserveren secretariaat receptie vacatures verkoop verhuur vragen winkel ' +
    'biuro bok faktury handlowy ksiegowosc kadry kontakt obsluga obslugaklienta pomoc praca rekrutacja rezerwacja rezerwacje reklamacje rodo sekretariat serwis sklep sprzedaz szkola urzad zamowienia zapisy zwroty ' +
    'buhgalteria help kadry otdel podderzhka prodazhi rabota reklama sekretar spravka zakaz zakazy pochta priem info ' +
    'kefu fuwu shichang zhaopin xiaoshou toiawase eigyo saiyo soumu gogaek mohit'
  ).split(' '),
)
const PARTS = expression(/[\p{L}\p{M}]+/gu)
/** Words between the parts of a role's name. */
const JOINING = new Set(
  'al and d da das de del den der des di do dos du e el für fur la las le les los of para per por pour the to und van voor y'.split(
    ' ',
  ),
)
/** Shorter words at the start of a longer one are those of names. */
const SHORTEST_PART = 4
/** More parts have room for a person's name. */
const MAX_PARTS = 2

/** Whether the part of an address before its `@` names a role and no person: `sales`, `sales.eu`, `customer-care-team`. */
export function isRole(local: string): boolean {
  const plain = local.toLowerCase().normalize('NFKD').replaceAll(/\p{M}/gu, '')
  const parts = (plain.match(PARTS) ?? []).filter((part) => !JOINING.has(part))
  const [first] = parts
  if (first === undefined || !isRoleWord(first)) return false
  return parts.length <= MAX_PARTS || parts.every((part) => isRoleWord(part))
}

/** Whether a word is that of a role, or two such words written as one: `customercare`, `atencionalcliente`. */
function isRoleWord(word: string): boolean {
  if (ROLES.has(word)) return true
  for (let at = SHORTEST_PART; at <= word.length - SHORTEST_PART; at++) {
    if (!ROLES.has(word.slice(0, at))) continue
    const rest = word.slice(at)
    const ends = [...JOINING].filter((joining) => rest.startsWith(joining))
    if (['', ...ends].some((joining) => ROLES.has(rest.slice(joining.length)))) return true
  }
  return false
}

/** Names that stand for any name, in addresses of domains that belong to no one (RFC 2606). */
const PLACEHOLDER =
  /^(?:(?:your|my)?[._-]?(?:user|first|last|full)?[._-]?name|first[._-]?(?:name)?[._-]last(?:name)?|you|me|some(?:one|body)|foo|bar|vorname[._-]nachname|ihr[._-]?name|pr[ée]nom[._-]nom|nombre|nome|imie[._-]nazwisko|naam)@(?:[\p{L}\d-]+\.)*example(?:\.(?:com|org|net))?$/iu

/** Whether an address is no one's: `name@example.com`. */
export function isPlaceholder(address: string): boolean {
  return PLACEHOLDER.test(address)
}

/** Numbers that cost callers nothing, or the same everywhere: only organizations have them. By calling code, then inside a country. */
const ABROAD =
  /^(?:1(?:8(?:00|33|44|55|66|77|88)|900)|(?:27|30|31|32|33|34|36|39|41|43|44|45|46|47|48|49|351|352|353|358|386|420|421|55|60|62|63|65|66|84|90|380|966|971|972)0?8(?:00|08)|61(?:1800|13(?!\d{9}))|7(?:800|804)|82(?:80|15\d\d|16\d\d)|81(?:120|570)|86(?:400|800|10086|95\d{3}$)|91(?:1800|1860)|34(?:90[0-2])|33(?:8[0-29])|44(?:3[0-7]\d|84[345]|87[0123])|49(?:180|137|900|700)|39(?:199|84[0-8]|89\d)|31(?:90[069]|88)|41(?:84[0248]|90[016])|43(?:8[012]0|9[03][01]))/
const AT_HOME =
  /^(?:1?8(?:00|33|44|55|66|77|88)\d{7}$|0?8(?:00|08)\d{5,8}$|0(?:180|137|900)\d{7}$|0900\d{4,6}$|084[0248]\d{6}$|084[345]\d{7}$|90[0-2]\d{6}$|1[38]00\d{6}$|0(?:120|570|990)\d{6}$|[48]00\d{7}$|8(?:800|804)\d{7}$|1[56]\d\d\d{4}$|800\d{6,8}$|80[01]\d{6}$|199\d{6}$|03(?:00|33)\d{7}$|0870\d{7}$|4004\d{4}$|9200\d{5}$)/
/** Numbers of the United Kingdom for organizations, in the groups in which they are written there. */
const BRITISH = /^0(?:3\d\d|8[047]\d) \d{3} \d{3,4}$/

/** Whether a number is written as only organizations' are. */
export function isPublicForm(written: string): boolean {
  return BRITISH.test(written)
}

/** Whether digits are a number that only organizations have. */
export function isPublicNumber(digits: string, abroad: boolean): boolean {
  return abroad ? ABROAD.test(digits) : AT_HOME.test(digits)
}

/** Words by which an organization announces its number. */
export const OF_ORGANIZATIONS = expression(
  /(?:hotline|help\s?line|help\s?desk|customer (?:service|care|support)|support (?:line|number|team)|switchboard|front desk|reception|box office|reservations?|toll[- ]free|freephone|free of charge|emergency|poison|crisis line|information line|enquiries|head office|headquarters|main (?:line|number|desk)|(?:city|town) hall|council|library|clinic|hospital|police|embassy|consulate|museum|airport|airline|pharmacy|support|sales|service desk|department|24\/7|round the clock|information desk|(?:tip|info|order|press|advice|booking|service|ticket) (?:line|office)|operator|dispatch|admissions|lines? (?:is|are) open|(?:the|our) (?:shop|school|surgery|practice|theatre|theater|gym|restaurant|hotel|garage|vet|dentist|number|team|company|utility|council)|visitor cent|call cent|our (?:office|store|shop|branch|team)|service\s?nummer|kundendienst|kundenservice|kundenbetreuung|service-?hotline|zentrale|rezeption|notruf|notfallnummer|bürgertelefon|gebührenfrei|kostenlos|störung|standard téléphonique|service client|numéro vert|accueil|numéro gratuit|urgences|renseignements|serveur vocal|atención al cliente|centralita|recepción|línea gratuita|teléfono gratuito|emergencias|información|atendimento|\bsac\b|ouvidoria|central de|linha de apoio|número gratuito|emergência|servizio clienti|centralino|numero verde|assistenza clienti|emergenze|call ?center|klantenservice|gratis|noodnummer|meldkamer|receptie|infolinia|biuro obsługi|bezpłatn|alarmow|recepcj|горяч|справочн|контакт-центр|кол-?л-центр|колл-центр|бесплатн|служб|приемн|приёмн|регистратур|客服|热线|熱線|免费|总机|前台|服务电话|咨询电话|フリーダイヤル|お客様|コールセンター|窓口|代表電話|代表番号|お問い合わせ|サポート|고객센터|대표번호|상담|콜센터|무료|민원|خدمة العملاء|الخط الساخن|خط المساعدة|مجاني|مجانا|الطوارئ|الاستعلامات|الرقم الموحد|हेल्पलाइन|टोल[- ]?फ्री|ग्राहक|आपातकालीन|कस्टमर केयर)/iu,
)
/** A person is meant, whatever stands beside. */
export const OF_PERSONS = expression(
  /(?<![\p{L}\p{N}])(?:my|his|her|their|mr|mrs|ms|mobile|cell|private|home|mein\p{L}*|sein\p{L}*|ihr\p{L}*|privat\p{L}*|handy\p{L}*|mon|ma|son|sa|portable|mi|su|móvil|celular|meu|minha|seu|sua|mio|mia|suo|sua|cellulare|mijn|zijn|haar|mobiel|mój|moja|jego|jej|prywatn\p{L}*|мой|мо[яё]|его|е[её]|личн\p{L}*|домашн\p{L}*)(?![\p{L}\p{N}])|我的|他的|她的|私の|彼の|彼女の|携帯|手机|내 |제 |그의|그녀|휴대|رقمي|جوال|رقمه|رقمها|मेरा|मेरी|उसका|उसकी|उनका|मोबाइल/iu,
)

/** Resolvers that everybody may ask, and addresses that belong to no machine (RFC 3849). */
const RESOLVERS = new Set(
  (
    '8.8.8.8 8.8.4.4 1.1.1.1 1.0.0.1 1.1.1.2 1.0.0.2 1.1.1.3 1.0.0.3 9.9.9.9 9.9.9.10 9.9.9.11 149.112.112.112 149.112.112.10 149.112.112.11 ' +
    '208.67.222.222 208.67.220.220 208.67.222.123 208.67.220.123 208.67.222.220 4.2.2.1 4.2.2.2 4.2.2.3 4.2.2.4 64.6.64.6 64.6.65.6 94.140.14.14 94.140.15.15 94.140.14.15 94.140.15.16 ' +
    '76.76.2.0 76.76.10.0 76.76.19.19 76.223.122.150 185.228.168.9 185.228.169.9 185.228.168.168 185.228.168.10 77.88.8.8 77.88.8.1 77.88.8.88 77.88.8.2 77.88.8.7 77.88.8.3 ' +
    '223.5.5.5 223.6.6.6 119.29.29.29 119.28.28.28 114.114.114.114 114.114.115.115 180.76.76.76 101.226.4.6 1.2.4.8 210.2.4.8 168.126.63.1 168.126.63.2 168.95.1.1 168.95.192.1 101.101.101.101 101.102.103.104 8.26.56.26 8.20.247.20 84.200.69.80 84.200.70.40 195.46.39.39 195.46.39.40 156.154.70.1 156.154.71.1 216.146.35.35 216.146.36.36 ' +
    '193.110.81.0 185.253.5.0 193.110.81.9 185.253.5.9 86.54.11.1 86.54.11.100 45.90.28.0 45.90.30.0 130.59.31.248 146.255.56.98 5.9.164.112 80.67.169.12 80.67.169.40 91.239.100.100 89.233.43.71 74.82.42.42 198.41.0.4 199.7.83.42 192.58.128.30 193.0.14.129 202.12.27.33 ' +
    '2001:4860:4860::8888 2001:4860:4860::8844 2001:4860:4860::64 2606:4700:4700::1111 2606:4700:4700::1001 2606:4700:4700::1112 2606:4700:4700::1113 2620:fe::fe 2620:fe::9 2620:119:35::35 2620:119:53::53 ' +
    '2620:0:ccc::2 2620:0:ccd::2 2a10:50c0::ad1:ff 2a10:50c0::ad2:ff 2a02:6b8::feed:0ff 2a02:6b8:0:1::feed:0ff 2400:3200::1 2400:3200:baba::1 2a0d:2a00:1:: 2a0d:2a00:2:: 2001:610:1:40ba:145:100:185:15'
  ).split(' '),
)

/** Whether a network address is a public resolver. */
function isResolver(address: string): boolean {
  return RESOLVERS.has(address.toLowerCase())
}
