/** Addresses and numbers of roles and organizations: they belong to no person. */
import { expression } from '../text/slices.ts'

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
export function isResolver(address: string): boolean {
  return RESOLVERS.has(address.toLowerCase())
}
