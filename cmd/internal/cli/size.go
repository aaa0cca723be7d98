// Sizes as people write them.

package cli

import (
	"fmt"
	"strings"
)

// ParseSize reads bytes with an optional K, M or G (binary).
func ParseSize(s string) (int64, error) {
	var n int64
	var unit string
	if _, err := fmt.Sscanf(s+" ", "%d%s", &n, &unit); err != nil && unit == "" {
		unit = "B"
	}
	shift, ok := map[string]int{"B": 0, "K": 10, "M": 20, "G": 30}[strings.ToUpper(unit)]
	if !ok || n < 1 || n > 1<<33 || n<<shift > 1<<40 {
		return 0, fmt.Errorf("size %q: a number with K, M or G is wanted", s)
	}
	return n << shift, nil
}
