// Samples: one figure for each round under a key, and medians of them.

package main

import "slices"

// samples are the figures of the rounds, by key, in the order in which they were taken.
type samples map[string][]float64

func (s samples) add(key string, v float64) { s[key] = append(s[key], v) }

// median is 0 of nothing, and of an even count the mean of the middle two.
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

// share is the median of what a is of b, round by round; ok is false when there is no
// round in which both were measured.
func (s samples) share(a, b string) (share float64, ok bool) {
	var shares []float64
	for i := range min(len(s[a]), len(s[b])) {
		if s[b][i] > 0 {
			shares = append(shares, s[a][i]/s[b][i])
		}
	}
	return median(shares), len(shares) > 0
}
