import type { Lexicon } from '../cues.ts'

export const it: Lexicon = {
  language: 'it',
  asks: `
    come posso, come faccio, come si, puoi, potresti, può, aiutami, per favore, ho bisogno, voglio,
    vorrei, dammi, mostrami, spiega*, devo, dovrei, posso, cosa posso`,
  against: `
    chi ha inventato, chi ha scritto, chi era, storia d*, museo, orari*, film, romanzo, etimologia`,
  operators: `per, più, meno, diviso, diviso per, moltiplicato per`,
  code: {
    asks: `
      scrivi, scrivere, crea, correggi, programma, ottimizza, traduci, converti, implementa, genera,
      rifattorizza, spiega*, aggiungi, fai`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algoritmo, algoritmi,
      codice sorgente, ciclo for, query sql, espressione regolare, formula excel, script, database,
      compilatore, pagina web`,
    loose: `
      funzione, programma, python, java, codice, classe, variabile, query, macro, lista, errore,
      bug, formula`,
    strong: `
      scrivi una funzione, scrivi un programma, scrivi uno script, questo codice, il mio codice,
      in python, in javascript, query sql, codice python, formula excel, espressione regolare`,
    against: `
      codice postale, codice di abbigliamento, codice fiscale, codice penale, codice civile`,
  },
  math: {
    asks: `
      calcola*, risolvi*, dimostra*, semplifica*, deriva, integra, quanto fa, quanto fanno,
      quanto è, qual è, quanti, trova, scomponi`,
    topics: `
      equazion*, derivata*, integrale, radice quadrata, frazion*, triangolo*, cerchio, rettangolo*,
      perimetro, area d*, raggio, diametro, probabilità, matrice, polinomi*, percentuale,
      compiti di matematica, problema di matematica, matematica, media di, mediana, volume d*,
      teorema, ipotenusa`,
    loose: `angolo, lato, media, numeri`,
    strong: `
      risolvi l'equazione, radice quadrata di, la derivata di, area di un, area del triangolo,
      equazione di secondo grado, teorema di pitagora`,
    against: `matematico, abitanti, triangolo amoroso`,
  },
  roleplay: {
    asks: `
      fai finta, fingi, immagina di essere, sei, sii, comportati, comportati come, parla come,
      parla con me, rispondi come, interpreta, recita`,
    topics: `
      pirata, pirati, cavaliere*, vampiro*, mago, maghi, strega*, drago, draghi, principessa*,
      robot, detective, elfo, elfi, fidanzata, fidanzato, ragazza, fantasma*, alieno*, regina,
      maggiordomo, demone*, stregone`,
    loose: `personaggio, nonna, amico`,
    strong: `
      fai finta di essere, fai finta che, fingi di essere, gioco di ruolo, interpreta il ruolo,
      immagina di essere, ora sei, d'ora in poi sei, sii la mia, resta nel personaggio`,
    against: `attore, attrice, correttore, traduttore, insegnante, gioco da tavolo`,
  },
  medical: {
    asks: `
      posso, devo, cosa posso prendere, cosa prendo, cosa faccio, cosa devo, quanto, quanta, ho,
      mi fa male, mi sento, mio figlio ha, mia figlia ha, è pericoloso, curare, trattare, prendere,
      quale farmaco, qual è la dose`,
    leads: `mio, mia, per, contro`,
    topics: `
      mal di testa, mal di pancia, mal di schiena, mal di gola, mal di stomaco, dolore al petto,
      emicrania, febbre, tosse, nausea, vomito, diarrea, vertigini, eruzione cutanea, ibuprofene,
      paracetamolo, tachipirina, aspirina, antibiotic*, farmac*, medicin*, compress*,
      pressione alta, pressione sanguigna, esami del sangue, sintom*, infezion*, allergi*, diabete,
      cancro, tumore, incinta, gravidanza, depressione, influenza, varicella, dose, dosaggio,
      effetti collaterali, pillola, scottatura, pomata`,
    loose: `dolore, testa, stomaco, gola, petto, stanc*`,
    strong: `
      ho mal di, effetti collaterali d*, dose di, dosaggio di, ha la febbre, ho la febbre`,
    against: `farmacia apre, computer, ospedale più vicino`,
  },
  legal: {
    asks: `
      posso, può il mio, può licenziarmi, è legale, è illegale, è reato, ho diritto, devo,
      quali sono i miei diritti, cosa posso fare, redigi, scrivi, si rifiuta, quanto tempo`,
    topics: `
      padrone di casa, proprietario, inquilin*, affitto, caparra, cauzione, contratto di affitto,
      contratto di lavoro, contratto, licenzia*, datore di lavoro, divorzio, affidamento,
      mantenimento, testamento, eredità, avvocato, fare causa, causa legale, denuncia*, multa,
      risarcimento, diritto d'autore, termini di servizio, procura, sfratto, subaffittare,
      garanzia legale`,
    loose: `diritti, tribunale, legge, vicino, clausola, rimborso`,
    strong: `
      i miei diritti, è legale, è illegale, è reato, fare causa, redigi un contratto,
      contratto di affitto, licenziarmi, inadempimento contrattuale, restituire la cauzione`,
    against: `legge di gravità, costituzione, legge di murphy`,
  },
  'financial-advice': {
    asks: `
      devo, dovrei, conviene, vale la pena, è il momento, dove investire, dove metto,
      come investire, quanto dovrei, quale, quali, consigli*, mi conviene, dovresti`,
    topics: `
      azioni, borsa, etf, obbligazioni, investire, investimento, investimenti, bitcoin, cripto*,
      risparmi, conto deposito, fondo pensione, pensione, mutuo, prestito, tasse, detrarre,
      portafoglio, dividendi, debiti, assicurazione sulla vita, fondi, immobil*`,
    loose: `soldi, comprare, vendere, affittare, oro, casa, risparmiare`,
    strong: `
      dovrei investire, dovrei comprare azioni, comprare o affittare, affittare o comprare,
      quali azioni, investire i miei, investire in borsa, pagare meno tasse, dove investire`,
    against: `borsa di studio, borsa valori, comprare il pane`,
  },
  'personal-data': {
    asks: `
      trova*, cerca*, scopri, dammi, dimmi, dove abita, dove vive, di chi è, qual è, chi è,
      localizza*, identifica*, quanti anni ha`,
    leads: `mio, mia, suo, sua, nato il, nata il, abita in`,
    topics: `
      indirizzo di casa, indirizzo d*, l'indirizzo di, numero di telefono d*, telefono d*,
      ex ragazza, ex fidanzat*, il mio ex, la mia ex, mio vicino, mia vicina, mio collega,
      data di nascita, cartella clinica, targa, il suo indirizzo`,
    loose: `indirizzo, numero, telefono, abita, vicino`,
    strong: `
      mi chiamo, sono nato il, sono nata il, abito in via, dove abita mio, dove abita la mia,
      indirizzo di casa di, numero di telefono della mia, numero di telefono del mio`,
    against: `
      biblioteca, municipio, museo, presidente, servizio clienti, ambasciata, stazione`,
  },
}
