// The orders that rows can have.

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Order is what rows are sorted by: the largest first, names from A to Z.
type Order string

// Orders are all of them, the usual one first; the key of each is its first letter, but for mean: t, time.
var Orders = []Order{"calls", "bytes", "mean", "p99", "queue", "errors", "name"}

var orderKeys = map[byte]Order{'c': "calls", 'b': "bytes", 't': "mean", 'p': "p99", 'u': "queue", 'e': "errors", 'n': "name"}

// ParseOrder checks a word of the user's.
func ParseOrder(word string) (Order, error) {
	if o := Order(word); slices.Contains(Orders, o) {
		return o, nil
	}
	names := make([]string, len(Orders))
	for i, o := range Orders {
		names[i] = string(o)
	}
	return "", fmt.Errorf("--sort %q: want %s", word, strings.Join(names, ", "))
}

func (by Order) operations(list []Operation) {
	of := func(o *Operation) float64 {
		switch by {
		case "bytes":
			return o.In + o.Out
		case "mean":
			return o.Mean
		case "p99":
			return o.P99
		case "queue":
			return o.Queue
		case "errors":
			return o.Errors
		case "name":
			return 0
		}
		return o.Calls
	}
	slices.SortStableFunc(list, func(a, b Operation) int { return cmp.Or(cmp.Compare(of(&b), of(&a)), compareOperations(a, b)) })
}

// clients sorts connections; by their calls where they have no such figure.
func (by Order) clients(list []ClientRate) {
	of := func(c *ClientRate) float64 {
		switch by {
		case "bytes":
			return c.In + c.Out
		case "queue":
			return c.Queue
		case "name":
			return 0
		}
		return c.Calls
	}
	slices.SortStableFunc(list, func(a, b ClientRate) int {
		return cmp.Or(cmp.Compare(of(&b), of(&a)), strings.Compare(a.Address, b.Address), strings.Compare(a.Transport, b.Transport))
	})
}
