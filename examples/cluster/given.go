package main

import (
	"flag"
	"net/http"
	"regexp"
	"strings"

	"github.com/keelson-dev/keelson/apiserver/zpages"
	"github.com/keelson-dev/keelson/cluster"
)

// given are the flags with their values, those that were left out with their defaults. Passwords, tokens and keys are in files;
// those that somebody writes into a URL are left out.
type given map[string]string

// flagsOf returns the flags of a set that has parsed args.
func flagsOf(f *flag.FlagSet, args []string) given {
	all := given{}
	f.VisitAll(func(one *flag.Flag) { all[one.Name] = one.Value.String() })
	// Functions do not keep what they were called with.
	for i := 0; i < len(args); i++ {
		name, value, attached := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		one := f.Lookup(name)
		if one == nil {
			continue
		}
		b, ok := one.Value.(interface{ IsBoolFlag() bool })
		switch {
		case attached:
		case ok && b.IsBoolFlag():
			value = "true"
		case i+1 < len(args):
			i++
			value = args[i]
		}
		if one.Value.String() == "" && value != "" {
			all[name] = strings.TrimPrefix(all[name]+","+value, ",")
		}
	}
	login := regexp.MustCompile(`://[^/,]*@`)
	for name, value := range all {
		all[name] = login.ReplaceAllString(value, "://xxxxx@")
	}
	return all
}

// show has the server tell them at /flagz.
func (g given) show(o *cluster.Options) {
	if o.Server.Paths == nil {
		o.Server.Paths = map[string]http.Handler{}
	}
	o.Server.Paths["/flagz"] = zpages.Flagz("apiserver", g)
}
