//go:build !linux

package volume_test

import "testing"

func mountsBelow(testing.TB, string) []string { return nil }
func detach(string)                           {}
func makePipe(string) error                   { return nil }
