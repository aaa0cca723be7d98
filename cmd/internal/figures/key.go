// Labels as one string, to find a sample again.

package figures

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Key is the labels in their order, so that equal labels, and no others, have equal keys.
func Key(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(strconv.Quote(name))
		b.WriteString(strconv.Quote(labels[name]))
	}
	return b.String()
}
