/**
 * Mutants by id that change nothing that a caller can see, or only how long something takes. The id
 * is gone as soon as the place is written otherwise.
 */
export const EQUIVALENTS: readonly {
  readonly id: string;
  readonly file: string;
  readonly reason: string;
}[] = [
  {
    id: 'b2f4558f',
    file: 'kernel/decimal.ts',
    reason: 'the slower way, for long decimals, has the same product',
  },
  {
    id: '4004aedf',
    file: 'collect/trades/known.ts',
    reason: 'a row that a page lacks is none of its rows',
  },
  {
    id: '34df9bb2',
    file: 'kernel/tls.ts',
    reason: 'no code of an error has these words but at its begin',
  },
  {
    id: '1cec3ca7',
    file: 'archive/merge.ts',
    reason: 'the same rows in smaller batches',
  },
  {
    id: 'd30e929d',
    file: 'collect/trades/known.ts',
    reason: 'a row that a page lacks is none of its rows',
  },
  {
    id: '79547421',
    file: 'collect/trades/pushed.ts',
    reason: 'it is set with the first run, and not looked at before',
  },
  {
    id: 'ba5fe2e0',
    file: 'archive/row-blocks.ts',
    reason: 'a block is filled before it is read',
  },
  {
    id: '530eaed3',
    file: 'model/columns.ts',
    reason: 'the slower way comes to the same for decimals of the usual look',
  },
  {
    id: '09767ec3',
    file: 'archive/events/event-stream.ts',
    reason: 'the slower way hands out the rest of a batch as well, in turn',
  },
  {
    id: 'f73b642b',
    file: 'collect/trades/head.ts',
    reason: 'only a longer page is asked this, and an empty one after one with rows is an error',
  },
  {
    id: 'a35c5321',
    file: 'collect/trades/page-back.ts',
    reason: 'below all that is known nothing is looked at again, and after an empty page neither',
  },
  {
    id: 'bb702e1d',
    file: 'archive/events/sources.ts',
    reason: 'rows that all lie within the span are held against it once more',
  },
  {
    id: '996aacfe',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the slower way, for unusual decimals, writes the same bytes',
  },
  {
    id: '14d0cec2',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the slower way, for unusual decimals, writes the same bytes',
  },
  {
    id: '5882e483',
    file: 'store/writer/writer.ts',
    reason: 'only when the next group is prepared, not what is in it',
  },
  {
    id: '4f8e5265',
    file: 'store/writer/session.ts',
    reason: 'the timer is cancelled when its try ends, and no process ends before that',
  },
  {
    id: '9b460842',
    file: 'store/writer/coverage.ts',
    reason: 'the coverage of no market is asked for, and that is none',
  },
  {
    id: 'e53b21ad',
    file: 'archive/row-blocks.ts',
    reason: 'which of two memories of a minute is asked, not what an instant is',
  },
  {
    id: '3dfc8c98',
    file: 'archive/row-blocks.ts',
    reason: 'which of two memories of a minute is asked, not what an instant is',
  },
  {
    id: '2858756a',
    file: 'archive/row-blocks.ts',
    reason: 'no instant ends with its minute, so each is taken apart',
  },
  {
    id: '3ac67dbe',
    file: 'store/writer/trade-columns.ts',
    reason: 'only in which order rows are inserted, and how full pages of an index are',
  },
  {
    id: '1f31946e',
    file: 'store/writer/trade-columns.ts',
    reason: 'all times lie on the same days as the first and the last of them',
  },
  {
    id: '1618f8ad',
    file: 'store/writer/trade-columns.ts',
    reason: 'the slower way finds the same order',
  },
  {
    id: 'e6a79e43',
    file: 'store/writer/trade-rows.ts',
    reason: 'only when the next group is prepared, not what is in it',
  },
  {
    id: 'dead14ff',
    file: 'store/writer/writer.ts',
    reason: 'a connection that is in step is given up and opened anew',
  },
  {
    id: 'ffcb2cbf',
    file: 'archive/reading.ts',
    reason: 'how many threads read the files, not what they read',
  },
  {
    id: '6b4e3dd4',
    file: 'archive/events/sources.ts',
    reason: 'how many threads read the files, not what they read',
  },
  {
    id: 'f262a3be',
    file: 'archive/row-blocks.ts',
    reason: 'a block has no rows before it took its first',
  },
  {
    id: 'f364f3d7',
    file: 'store/writer/coverage.ts',
    reason: 'a span of no length has no rows to count',
  },
  {
    id: '1f230243',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the slower way writes the same bytes',
  },
  {
    id: 'b6c12313',
    file: 'collect/trades/gap-book.ts',
    reason: 'the archive remembers no such tries where the start is known, and is asked in vain',
  },
  {
    id: 'ba7a7dd5',
    file: 'collect/trades/page-back.ts',
    reason: 'time that was seen empty and has a trade is taken back',
  },
  {
    id: 'dcd875ce',
    file: 'collect/trades/pushed.ts',
    reason: 'without a connection it is not asked for, and one that opens sets it',
  },
  {
    id: 'dccafdfe',
    file: 'collect/trades/pushed.ts',
    reason: 'the newest trade of the run is in it already',
  },
  {
    id: '5be3f23f',
    file: 'model/check-results.ts',
    reason: 'a low that is such an open equals the lowest price of the trades already',
  },
  {
    id: '6f88988a',
    file: 'model/check-results.ts',
    reason: 'a high that is such an open equals the highest price of the trades already',
  },
  {
    id: 'b08b42e3',
    file: 'store/writer/coverage.ts',
    reason: 'the coverage of no market is asked for, and that is none',
  },
  {
    id: 'fc66e9f2',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the slower way, for unusual decimals, writes the same bytes',
  },
  {
    id: 'f3f84046',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the slower way, for unusual decimals, writes the same bytes',
  },
  {
    id: 'af8952ac',
    file: 'store/writer/trade-encoder.ts',
    reason: 'how much room there is at first; it grows when it is used up',
  },
  {
    id: '101229db',
    file: 'store/writer/writer.ts',
    reason: 'only when the next group is prepared, not what is in it',
  },
  {
    id: '61670d89',
    file: 'store/writer/coverage.ts',
    reason: 'a new range has no earlier one, and none of the ledger has no bounds',
  },
  {
    id: '5e80f2ab',
    file: 'store/writer/refused-rows.ts',
    reason: 'no row is inserted and none counted',
  },
  {
    id: '1be5464a',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the slower way, for unusual decimals, writes the same bytes',
  },
  {
    id: 'ece0972d',
    file: 'store/writer/trade-rows.ts',
    reason: 'nothing is staged, looked up and found',
  },
  {
    id: 'b900f3d9',
    file: 'store/writer/transaction.ts',
    reason: 'the slower way, for trades that are known in part, lists the same ones',
  },
  {
    id: 'b1ebf522',
    file: 'archive/merge.ts',
    reason: 'one row at a time has the same order',
  },
  {
    id: '995dbb3a',
    file: 'archive/merge.ts',
    reason: 'one row at a time has the same order',
  },
  {
    id: 'd6b281e5',
    file: 'archive/events/sources.ts',
    reason: 'rows that all lie within the span are held against it once more',
  },
  {
    id: 'a698b5ae',
    file: 'archive/events/plan.ts',
    reason: 'no covered range is empty, so the two are never the same',
  },
  {
    id: '3c3d4e9e',
    file: 'store/writer/writer.ts',
    reason: 'a wait of no time is a turn of the loop',
  },
  {
    id: '2bec1727',
    file: 'store/writer/coverage.ts',
    reason: 'a statement about no streams reads no rows',
  },
  {
    id: '7275d211',
    file: 'store/writer/coverage.ts',
    reason: 'a statement about no streams reads no rows',
  },
  {
    id: '6c15e9b0',
    file: 'collect/trades/pushed.ts',
    reason: 'the slower way, for rows out of order, has the same run',
  },
  {
    id: '0ad61064',
    file: 'collect/trades/pushed.ts',
    reason: 'the slower way, for rows out of order, has the same run',
  },
  {
    id: '31f53a41',
    file: 'model/order.ts',
    reason: 'the slower way finds no row of an order away from it',
  },
  {
    id: 'ea67ab0e',
    file: 'store/writer/trade-encoder.ts',
    reason: 'a price with a nine goes the slower way, to the same text',
  },
  {
    id: 'b8c94fbc',
    file: 'store/writer/trade-encoder.ts',
    reason: 'the last three digits, which are written, are the same',
  },
  {
    id: '3f84b316',
    file: 'store/writer/trade-encoder.ts',
    reason: 'a price with a point goes the slower way, to the same text',
  },
  {
    id: 'c0d47337',
    file: 'store/writer/trade-encoder.ts',
    reason: 'each price goes the slower way, to the same text',
  },
  {
    id: '3d34362b',
    file: 'store/writer/coverage.ts',
    reason: 'a statement about no rows changes none',
  },
  {
    id: '91ce1c99',
    file: 'store/writer/coverage.ts',
    reason: 'the same id in its own place',
  },
  {
    id: '8976b127',
    file: 'store/writer/coverage.ts',
    reason: 'the same id in its own place',
  },
  {
    id: '6eeec527',
    file: 'store/writer/staging.ts',
    reason: 'the same time in its own place',
  },
  {
    id: '74a4d439',
    file: 'store/writer/trade-encoder.ts',
    reason: 'an end of what is written is never 0',
  },
  {
    id: '64ab4f4e',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
  {
    id: '325ccd7b',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
  {
    id: 'ff137399',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
  {
    id: '20e6079f',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
  {
    id: '2200698e',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
  {
    id: 'a0c7b510',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
  {
    id: '48c7c259',
    file: 'store/writer/trade-rows.ts',
    reason: 'more trades are looked up, and the same ones are found',
  },
];
