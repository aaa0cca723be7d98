// Labels as one string, as a key to find a sample again.

package figures

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Key returns a string of the sorted labels. Keys are equal only for equal labels.
func Key(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(strconv.Quote(name))
		b.WriteString(strconv.Quote(labels[name]))
	}
	return b.String()
}
