package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener) }()
	url := "http://" + listener.Addr().String() + "/apis/shop.example.com/v1/namespaces/default/carts"
	tests := []struct {
		body string
		code int
		want string
	}{
		{`{"metadata":{"name":"mine"},"spec":{"items":[{"article":"tea","count":2}]}}`, 201, `"currency":"EUR"`},
		{`{"metadata":{"name":"mine"}}`, 409, `carts.shop.example.com \"mine\" already exists`},
		{`{"metadata":{"name":"x"},"spec":{"items":[{"article":"tea"}]}}`, 422, `Cart.shop.example.com \"x\" is invalid: spec.items[0].count: Invalid value: 0: must be at least 1`},
	}
	for _, test := range tests {
		resp, err := http.Post(url, "application/json", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != test.code || !strings.Contains(string(body), test.want) {
			t.Errorf("%s: %d %s %v", test.body, resp.StatusCode, body, err)
		}
	}
	for _, test := range []struct {
		body       string
		generation int64
	}{
		{`{"metadata":{"name":"mine"},"spec":{"currency":"EUR","items":[{"article":"tea","count":2}]}}`, 1},
		{`{"metadata":{"name":"mine","generation":7},"spec":{"items":[{"article":"tea","count":3}]}}`, 2},
		{`{"metadata":{"name":"mine","labels":{"a":"b"}},"spec":{"items":[{"article":"tea","count":3}]}}`, 2},
		{`{"metadata":{"name":"mine"},"spec":{}}`, 3},
	} {
		if got := put(t, url+"/mine", test.body); got.Generation != test.generation {
			t.Errorf("%s: generation %d, want %d", test.body, got.Generation, test.generation)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// put updates a cart and returns what the server stored.
func put(t *testing.T, url, body string) (stored Cart) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&stored); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", body, resp.StatusCode, err)
	}
	return stored
}

func TestLoopbackOnly(t *testing.T) {
	if err := run(t.Context(), "0.0.0.0:0"); err == nil || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("listening everywhere: %v", err)
	}
}
