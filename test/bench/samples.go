// Samples: one figure per round under each key, and their medians.

package main

import "slices"

// samples has the rounds' figures by key, in order.
type samples map[string][]float64

func (s samples) add(key string, v float64) { s[key] = append(s[key], v) }

// median returns the median, 0 for no values, and the mean of the middle two for an even number.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	m := len(v) / 2
	if len(v)%2 == 1 {
		return v[m]
	}
	return (v[m-1] + v[m]) / 2
}

// share returns the median of a/b over the rounds. ok is false if no round has both.
func (s samples) share(a, b string) (share float64, ok bool) {
	var shares []float64
	for i := range min(len(s[a]), len(s[b])) {
		if s[b][i] > 0 {
			shares = append(shares, s[a][i]/s[b][i])
		}
	}
	return median(shares), len(shares) > 0
}
