package main

import "testing"

func BenchmarkPods(b *testing.B) {
	for b.Loop() {
		if _, err := pods(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReady(b *testing.B) {
	for b.Loop() {
		if _, err := ready(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
