// Metrics by name and labels, and values computed from them.

// Package figures has a server's metrics for programs: samples by name, from Prometheus' text
// format or from the server itself.
package figures

// A Sample is one metric with its labels.
type Sample struct {
	Labels  map[string]string `json:"labels,omitempty"`
	Value   float64           `json:"value"`             // of a histogram: the sum of what it has counted
	Classes []Class           `json:"classes,omitempty"` // of a histogram
}

// A Class counts the calls that took at most Seconds. The last class of a sample is unbounded,
// written as zero seconds.
type Class struct {
	Seconds float64 `json:"seconds"`
	Calls   float64 `json:"calls"`
}

// A Set has all samples of a server at one moment, by name.
type Set map[string][]Sample

// Count returns the number of calls in all classes of a histogram.
func (s *Sample) Count() float64 {
	if len(s.Classes) == 0 {
		return 0
	}
	return s.Classes[len(s.Classes)-1].Calls
}

// Sum adds the samples of a name that have all labels, given as name-value pairs.
func (s Set) Sum(name string, labels ...string) (sum float64) {
	for i := range s[name] {
		if s[name][i].has(labels) {
			sum += s[name][i].Value
		}
	}
	return sum
}

func (s *Sample) has(labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if s.Labels[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// Quantile returns the time that a share of the calls did not exceed, like Prometheus'
// histogram_quantile: interpolated linearly within its class. Beyond the last bound it returns that
// bound.
func Quantile(classes []Class, share float64) float64 {
	if len(classes) < 2 {
		return 0
	}
	last := len(classes) - 1
	rank := share * classes[last].Calls
	from := Class{}
	for _, to := range classes[:last] {
		if to.Calls >= rank && to.Calls > from.Calls {
			return from.Seconds + (to.Seconds-from.Seconds)*(rank-from.Calls)/(to.Calls-from.Calls)
		}
		from = to
	}
	return from.Seconds
}
