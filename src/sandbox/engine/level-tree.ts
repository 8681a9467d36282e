/**
 * What entries are ordered by. A number as long as it is exact, else a bigint: JavaScript compares
 * the two by mathematical value, and plain numbers compare several times faster.
 */
export type LevelKey = number | bigint;

/** Most entries of a node: moving half of them is still cheap, and 100,000 levels stand 3 deep. */
const NODE_MAX = 64;

/** What a tree holds. */
export class TreeEntry<E> {
  readonly key: LevelKey;
  /** Number of orders; changed by {@link LevelTree.count} only. */
  orders = 0;
  leaf: Leaf<E> | undefined = undefined;

  constructor(key: LevelKey) {
    this.key = key;
  }
}

class Leaf<E> {
  readonly isLeaf = true;
  keys: LevelKey[] = [];
  entries: E[] = [];
  /** Orders in all entries. */
  orders = 0;
  parent: Branch<E> | undefined = undefined;
  next: Leaf<E> | undefined = undefined;
  previous: Leaf<E> | undefined = undefined;
}

class Branch<E> {
  readonly isLeaf = false;
  /** Child i has the keys from `keys[i]` up to below `keys[i + 1]`; `keys[0]` is never read. */
  keys: LevelKey[] = [];
  children: Node<E>[] = [];
  orders = 0;
  parent: Branch<E> | undefined = undefined;
}

type Node<E> = Leaf<E> | Branch<E>;

/** Position of the first key that is not below `key`. */
function entryIndex(keys: readonly LevelKey[], key: LevelKey): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] ?? 0) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Position of the child that `key` belongs to. */
function childIndex(keys: readonly LevelKey[], key: LevelKey): number {
  let low = 1;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] ?? 0) <= key) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * Price levels in ascending order of their keys: a B+ tree whose nodes know how many orders stand
 * below them, so that finding, adding, removing and skipping cost O(log levels).
 *
 * A full node splits in two; a node goes when it is empty and not before (nodes are never merged,
 * which costs little room and saves much moving where levels come and go near the best price).
 */
export class LevelTree<E extends TreeEntry<E>> {
  readonly #make: (key: LevelKey) => E;
  #firstLeaf: Leaf<E> = new Leaf<E>();
  #root: Node<E> = this.#firstLeaf;
  #size = 0;

  /** @param make builds the entry of a key that is new */
  constructor(make: (key: LevelKey) => E) {
    this.#make = make;
  }

  /** Number of entries. */
  get size(): number {
    return this.#size;
  }

  /** Number of orders in all entries. */
  get orders(): number {
    return this.#root.orders;
  }

  /** The entry with the lowest key. */
  get first(): E | undefined {
    return this.#firstLeaf.entries[0];
  }

  /** The entry of `key`, made if there is none. */
  obtain(key: LevelKey): E {
    const leaf = this.#leafOf(key);
    const index = entryIndex(leaf.keys, key);
    const known = leaf.entries[index];
    if (known !== undefined && known.key === key) return known;
    const made = this.#make(key);
    made.leaf = leaf;
    leaf.keys.splice(index, 0, key);
    leaf.entries.splice(index, 0, made);
    this.#size += 1;
    if (leaf.entries.length > NODE_MAX) this.#splitLeaf(leaf);
    return made;
  }

  /** Says that an entry of this tree has `change` orders more. */
  count(entry: E, change: number): void {
    entry.orders += change;
    let node: Node<E> | undefined = entry.leaf;
    while (node !== undefined) {
      node.orders += change;
      node = node.parent;
    }
  }

  /** Takes out an entry of this tree; it must have no orders. */
  remove(entry: E): void {
    const { leaf } = entry;
    if (leaf === undefined) return;
    const index = entryIndex(leaf.keys, entry.key);
    leaf.keys.splice(index, 1);
    leaf.entries.splice(index, 1);
    entry.leaf = undefined;
    this.#size -= 1;
    if (leaf.entries.length === 0 && leaf.parent !== undefined) this.#dropLeaf(leaf, leaf.parent);
  }

  /** All entries, lowest key first. The tree must not change meanwhile. */
  *[Symbol.iterator](): Generator<E> {
    let leaf: Leaf<E> | undefined = this.#firstLeaf;
    while (leaf !== undefined) {
      yield* leaf.entries;
      leaf = leaf.next;
    }
  }

  /** The first `limit` entries. */
  head(limit: number): E[] {
    const found: E[] = [];
    let leaf: Leaf<E> | undefined = this.#firstLeaf;
    while (leaf !== undefined && found.length < limit) {
      for (const entry of leaf.entries.slice(0, limit - found.length)) found.push(entry);
      leaf = leaf.next;
    }
    return found;
  }

  /**
   * The entries of the orders `[offset, offset + limit)`, counted over all entries.
   *
   * @returns the entries, and how many of the first one's orders come before `offset`
   */
  seek(offset: number, limit: number): { readonly entries: E[]; readonly skip: number } {
    const entries: E[] = [];
    if (offset >= this.orders) return { entries, skip: 0 };
    let skip = offset;
    let node = this.#root;
    while (!node.isLeaf) {
      const child: Node<E> | undefined = node.children.find((each) => {
        if (skip < each.orders) return true;
        skip -= each.orders;
        return false;
      });
      if (child === undefined) return { entries, skip: 0 };
      node = child;
    }
    let missing = limit;
    let leaf: Leaf<E> | undefined = node;
    while (leaf !== undefined && missing > 0) {
      for (const entry of leaf.entries) {
        if (entries.length === 0 && skip >= entry.orders) {
          skip -= entry.orders;
          continue;
        }
        missing -= entries.length === 0 ? entry.orders - skip : entry.orders;
        entries.push(entry);
        if (missing <= 0) break;
      }
      leaf = leaf.next;
    }
    return { entries, skip };
  }

  #leafOf(key: LevelKey): Leaf<E> {
    let node = this.#root;
    while (!node.isLeaf) {
      const child: Node<E> | undefined = node.children[childIndex(node.keys, key)];
      // A branch always has children; without one the first leaf is the only place left.
      if (child === undefined) return this.#firstLeaf;
      node = child;
    }
    return node;
  }

  #splitLeaf(leaf: Leaf<E>): void {
    const middle = leaf.entries.length >>> 1;
    const right = new Leaf<E>();
    right.keys = leaf.keys.splice(middle);
    right.entries = leaf.entries.splice(middle);
    for (const entry of right.entries) {
      entry.leaf = right;
      right.orders += entry.orders;
    }
    leaf.orders -= right.orders;
    right.previous = leaf;
    right.next = leaf.next;
    if (leaf.next !== undefined) leaf.next.previous = right;
    leaf.next = right;
    this.#addBeside(leaf, right, right.keys[0] ?? 0);
  }

  #splitBranch(branch: Branch<E>): void {
    const middle = branch.children.length >>> 1;
    const right = new Branch<E>();
    right.keys = branch.keys.splice(middle);
    right.children = branch.children.splice(middle);
    for (const child of right.children) {
      child.parent = right;
      right.orders += child.orders;
    }
    branch.orders -= right.orders;
    this.#addBeside(branch, right, right.keys[0] ?? 0);
  }

  /** Hangs the new node `right`, whose keys begin with `key`, into the tree after `left`. */
  #addBeside(left: Node<E>, right: Node<E>, key: LevelKey): void {
    let { parent } = left;
    if (parent === undefined) {
      parent = new Branch<E>();
      parent.keys = [key];
      parent.children = [left];
      parent.orders = left.orders + right.orders;
      left.parent = parent;
      this.#root = parent;
    }
    const index = parent.children.indexOf(left) + 1;
    parent.keys.splice(index, 0, key);
    parent.children.splice(index, 0, right);
    right.parent = parent;
    if (parent.children.length > NODE_MAX) this.#splitBranch(parent);
  }

  #dropLeaf(leaf: Leaf<E>, parent: Branch<E>): void {
    if (leaf.previous === undefined) this.#firstLeaf = leaf.next ?? this.#firstLeaf;
    else leaf.previous.next = leaf.next;
    if (leaf.next !== undefined) leaf.next.previous = leaf.previous;
    let node: Node<E> = leaf;
    let above: Branch<E> | undefined = parent;
    while (above !== undefined) {
      const index: number = above.children.indexOf(node);
      above.keys.splice(index, 1);
      above.children.splice(index, 1);
      if (above.children.length > 0) break;
      node = above;
      above = above.parent;
    }
    this.#lowerRoot();
  }

  /** Takes away a root that has one child only. */
  #lowerRoot(): void {
    while (!this.#root.isLeaf && this.#root.children.length === 1) {
      const [child] = this.#root.children;
      if (child === undefined) return;
      child.parent = undefined;
      this.#root = child;
    }
  }
}
