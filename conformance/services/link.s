// This file lets the functions of link.go be declared without a body.
