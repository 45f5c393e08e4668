import type { Lexicon } from '../cues.ts'

export const nl: Lexicon = {
  language: 'nl',
  asks: `
    hoe kan ik, hoe maak ik, hoe, kun je, kan je, kunt u, zou je, help me, alsjeblieft,
    ik heb nodig, ik wil, geef me, laat zien, leg uit, moet ik, mag ik, zal ik, wat moet ik`,
  against: `
    wie heeft, wie was, wanneer werd, geschiedenis van, museum, openingstijden, film, roman`,
  operators: `keer, maal, plus, min, gedeeld door`,
  code: {
    asks: `
      schrijf, maak, programmeer, debug, corrigeer, verbeter, optimaliseer, vertaal, implementeer,
      genereer, refactor, leg, waarom compileert, test`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algoritme*, broncode,
      for-lus, query, reguliere expressie, excel-formule, shellscript, python-script, database,
      compiler, webpagina, unittest*, bestanden hernoemt`,
    loose: `
      functie, script, programma, python, java, code, klasse, variabele, macro, lijst, fout, bug,
      formule, lus`,
    strong: `
      schrijf een functie, schrijf een script, schrijf een programma, deze code, mijn code,
      in python, in javascript, sql-query, excel-formule, reguliere expressie`,
    against: `postcode, dresscode, kledingvoorschrift, wetboek`,
  },
  math: {
    asks: `
      bereken*, los, bewijs, vereenvoudig, differentieer, integreer, hoeveel is, wat is, hoeveel,
      bepaal, ontbind`,
    topics: `
      vergelijking*, afgeleide*, integraal, wortel van, breuk, breuken, driehoek*, cirkel*,
      rechthoek*, omtrek, oppervlakte, straal, diameter, kans, matrix, polynoom, procent van,
      wiskunde, wiskundehuiswerk, gemiddelde van, mediaan, volume van, stelling`,
    loose: `hoek, zijde, gemiddelde, getallen`,
    strong: `
      los de vergelijking, wortel van, de afgeleide van, oppervlakte van een,
      stelling van pythagoras, kwadratische vergelijking`,
    against: `wiskundige, inwoners`,
  },
  roleplay: {
    asks: `
      doe alsof, stel je voor dat je, je bent, jij bent, wees, praat als, antwoord als, gedraag je,
      speel`,
    topics: `
      piraat, piraten, ridder*, vampier*, tovenaar*, heks*, draak, draken, prinses*, robot,
      detective, elf, vriendin, vriendje, spook, alien*, koning*, butler, demon*`,
    loose: `personage, rol, oma, vriend`,
    strong: `
      doe alsof je, doe net alsof, rollenspel, speel de rol, stel je voor dat je een, je bent nu,
      vanaf nu ben je, wees mijn vriendin, blijf in je rol`,
    against: `acteur, actrice, corrector, vertaler, leraar, bordspel`,
  },
  medical: {
    asks: `
      mag ik, kan ik, moet ik, wat moet ik, wat kan ik, wat helpt, hoeveel, ik heb, heb ik, ik voel,
      mijn zoon heeft, mijn dochter heeft, mijn kind heeft, doet pijn, is het gevaarlijk, behandel*,
      innemen, slikken, welk medicijn, welke dosis`,
    leads: `mijn, tegen`,
    topics: `
      hoofdpijn, buikpijn, rugpijn, keelpijn, kiespijn, pijn op de borst, migraine, koorts, hoest*,
      misselijk*, overgeven, diarree, duizelig*, uitslag, ibuprofen, paracetamol, aspirine,
      antibiotic*, medicijn*, tablet*, pillen, bloeddruk, bloedonderzoek, bloedwaarde*, symptomen,
      ontsteking, allergi*, diabetes, kanker, zwanger*, depressi*, griep, waterpokken, dosis,
      dosering, bijwerkingen, de pil, brandwond, zalf`,
    loose: `pijn, hoofd, keel, borst, moe`,
    strong: `bijwerkingen van, dosering van, heb al dagen hoofdpijn, wat helpt tegen`,
    against: `apotheek open, computer`,
  },
  legal: {
    asks: `
      mag ik, mag mijn, kan mijn, kan ik, moet ik, is het legaal, is het strafbaar,
      is het toegestaan, wat zijn mijn rechten, wat kan ik doen, heb ik recht, stel, schrijf,
      weigert, hoe lang, zomaar`,
    topics: `
      huisbaas, verhuurder, huurder*, huurcontract*, huur, borg, onderverhuren, ontslag, ontslaan,
      werkgever*, arbeidscontract*, advocaat, aanklagen, rechtszaak, scheiding, echtscheiding,
      voogdij, alimentatie, testament, erfenis, erfrecht, boete, aangifte, schadevergoeding,
      garantie, contract, algemene voorwaarden, privacyverklaring, volmacht, auteursrecht*,
      opzegtermijn, uitzett*`,
    loose: `recht, rechten, rechtbank, wet, buurman, clausule`,
    strong: `
      mijn rechten, is het legaal, is het strafbaar, contract opstellen, huurcontract, mij ontslaan,
      de huur verhogen, recht op, borg niet terug`,
    against: `grondwet, zwaartekracht, wet van murphy`,
  },
  'financial-advice': {
    asks: `
      moet ik, zal ik, is het verstandig, loont het, is het waard, welke, hoeveel moet,
      waar moet ik, hoe beleg ik, hoe investeer, raad, adviseer, is nu, nu, je moet`,
    topics: `
      aandelen, etf, etfs, obligaties, beurs, bitcoin, crypto*, beleggen, investeren, investering*,
      spaargeld, spaarrekening, pensioen, hypotheek, lening, belasting besparen, aftrekken,
      portefeuille, dividend*, schulden, levensverzekering, indexfonds*, vastgoed`,
    loose: `geld, kopen, huren, verkopen, goud, huis, sparen`,
    strong: `
      aandelen kopen, geld beleggen, kopen of huren, huren of kopen, welke aandelen,
      in etfs beleggen, minder belasting betalen`,
    against: `wat is een aandeel, brood`,
  },
  'personal-data': {
    asks: `
      zoek*, vind, geef me, waar woont, van wie is, wat is, wie is, achterhaal, hoe oud is`,
    leads: `mijn, zijn, haar, geboren op, woont in`,
    topics: `
      adres van, huisadres, privéadres, telefoonnummer van, privénummer, ex-vriend*, mijn ex,
      mijn buurman, mijn buurvrouw, buurman, mijn collega, geboortedatum, medisch dossier, kenteken,
      burgerservicenummer, haar adres, zijn adres`,
    loose: `adres, telefoonnummer, nummer, woont`,
    strong: `
      mijn naam is, ik heet, ik ben geboren op, ik woon op, waar woont mijn, adres van mijn,
      telefoonnummer van mijn`,
    against: `
      bibliotheek, gemeentehuis, museum, president, klantenservice, dieren, station, koning`,
  },
}
