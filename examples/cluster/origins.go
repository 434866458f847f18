package main

import (
	"flag"
	"fmt"
	"net/http"
	"strings"

	"github.com/keelson-dev/keelson/apiserver/cors"
)

// origins are those whose pages may use the API from a browser.
type origins []string

func (o *origins) define(f *flag.FlagSet) {
	f.Func("cors-allowed-origins", "", func(list string) error {
		*o = append(*o, strings.Split(list, ",")...)
		return nil
	})
}

func (o *origins) check() error {
	_, err := o.allow(nil)
	return err
}

// allow has a handler answer for them.
func (o *origins) allow(next http.Handler) (http.Handler, error) {
	if len(*o) == 0 {
		return next, nil
	}
	h, err := cors.New(next, *o...)
	if err != nil {
		return nil, fmt.Errorf("--cors-allowed-origins: %w", err)
	}
	return h, nil
}
