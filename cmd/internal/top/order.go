// The sort orders of rows.

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Order sorts rows: by descending value, or by name from A to Z.
type Order string

// Orders lists all orders, the default first. The key for an order is its first letter, except t
// (time) for mean and u for queue.
var Orders = []Order{"calls", "bytes", "mean", "p99", "queue", "errors", "name"}

var orderKeys = map[byte]Order{'c': "calls", 'b': "bytes", 't': "mean", 'p': "p99", 'u': "queue", 'e': "errors", 'n': "name"}

// ParseOrder validates a word from the command line.
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

// clients sorts connections. If connections lack the value, it sorts by calls.
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
