// Sizes as users write them.

package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSize exceeds any buffer or file size given on a command line.
const maxSize = 1 << 40

// ParseSize reads bytes, from 1 to 1<<40, with an optional K, M or G (binary).
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGbkmg")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]int{"": 0, "B": 0, "K": 10, "M": 20, "G": 30}[strings.ToUpper(s[len(digits):])]
	if err != nil || !ok || n < 1 || n > maxSize>>shift {
		return 0, fmt.Errorf("size %q: a number with K, M or G is wanted", s)
	}
	return n << shift, nil
}
