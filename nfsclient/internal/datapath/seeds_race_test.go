//go:build race

// The number of random seeds with the race detector.

package datapath

const seeds = 50
