package queue

import "container/heap"

// list is a heap of items that know their index.
type list struct {
	items []*Item
	less  func(a, b *Item) int
}

func (l *list) first() *Item {
	if len(l.items) == 0 {
		return nil
	}
	return l.items[0]
}

func (l *list) add(item *Item)    { heap.Push(l, item) }
func (l *list) remove(item *Item) { heap.Remove(l, item.index) }

// The rest is heap.Interface.

func (l *list) Len() int           { return len(l.items) }
func (l *list) Less(i, j int) bool { return l.less(l.items[i], l.items[j]) < 0 }

func (l *list) Swap(i, j int) {
	l.items[i], l.items[j] = l.items[j], l.items[i]
	l.items[i].index, l.items[j].index = i, j
}

func (l *list) Push(x any) {
	item := x.(*Item)
	item.list, item.index = l, len(l.items)
	l.items = append(l.items, item)
}

func (l *list) Pop() any {
	last := len(l.items) - 1
	item := l.items[last]
	l.items[last] = nil
	l.items = l.items[:last]
	item.list = nil
	return item
}
