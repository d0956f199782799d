package store

import (
	"container/list"
	"time"
)

// window keeps what ends after a fixed time, so that what has ended is found without a search: elements
// that last equally long end in the order in which they came. Every operation takes constant time.
type window[T any] struct {
	byLength map[time.Duration]*list.List
}

func newWindow[T any]() window[T] {
	return window[T]{byLength: make(map[time.Duration]*list.List)}
}

// add appends v, which starts now and lasts length.
func (w window[T]) add(v T, length time.Duration) *list.Element {
	l := w.byLength[length]
	if l == nil {
		l = list.New()
		w.byLength[length] = l
	}
	return l.PushBack(v)
}

// renew lets an element start again now.
func (w window[T]) renew(e *list.Element, length time.Duration) {
	w.byLength[length].MoveToBack(e)
}

func (w window[T]) remove(e *list.Element, length time.Duration) {
	w.byLength[length].Remove(e)
}

// oldest returns the element of this length that ends first.
func (w window[T]) oldest(length time.Duration) (v T, ok bool) {
	if l := w.byLength[length]; l != nil {
		if e := l.Front(); e != nil {
			return e.Value.(T), true
		}
	}
	return v, false
}

// endedPerCall is how many ended elements a call drops that adds one: more than one, so that a window
// shrinks again, and no more than a constant.
const endedPerCall = 2
