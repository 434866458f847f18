// Package printer writes objects in the formats of kubectl's flag --output, to the letter: tables made by the server,
// names, JSON, YAML, JSONPath, Go templates and custom columns.
//
//	p, err := printer.New("custom-columns=NAME:.metadata.name", printer.Options{})
//	err = p.Print(os.Stdout, obj)
//
// # Tables
//
// A server formats its kinds itself when a request carries [TableAccept]: its answer is a table, which the formats ""
// and "wide" align and add columns to. Other objects are shown by name and age. Headers are written once for tables of
// the same columns, so that a watch may be printed event by event. Columns are aligned within one call of Print, and
// across calls into an [Aligned].
//
// # Differences from kubectl
//
// The error of a template does not contain the object, which may be a Secret. Values that cannot be sorted are an
// error; kubectl exits.
//
// # Errors and concurrency
//
// Errors are those of the writer, of templates, and [ErrFormat]. Printers have state and are for one goroutine at a
// time. They do not change objects.
package printer
