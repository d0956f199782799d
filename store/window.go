package store

import "time"

// window keeps what ends after a fixed time, so that what has ended is found without a search: nodes that
// last equally long end in the order in which they came. Every operation takes constant time.
type window[T any] struct {
	byLength map[time.Duration]*node[T] // each the root of a ring: root.next ends first
}

// node holds its value, so that one allocation serves for both.
type node[T any] struct {
	prev, next *node[T]
	value      T
}

func newWindow[T any]() window[T] {
	return window[T]{byLength: make(map[time.Duration]*node[T])}
}

// add appends n, which starts now and lasts length.
func (w window[T]) add(n *node[T], length time.Duration) {
	root := w.byLength[length]
	if root == nil {
		root = new(node[T])
		root.prev, root.next = root, root
		w.byLength[length] = root
	}
	n.prev, n.next = root.prev, root
	n.prev.next, root.prev = n, n
}

// renew lets n start again now.
func (w window[T]) renew(n *node[T], length time.Duration) {
	w.remove(n)
	w.add(n, length)
}

func (w window[T]) remove(n *node[T]) {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
}

// oldest returns the node of this length that ends first, nil if there is none.
func (w window[T]) oldest(length time.Duration) *node[T] {
	root := w.byLength[length]
	if root == nil || root.next == root {
		return nil
	}
	return root.next
}

// endedPerCall is how many ended nodes a call drops that adds one: more than one, so that a window shrinks
// again, and no more than a constant.
const endedPerCall = 2
